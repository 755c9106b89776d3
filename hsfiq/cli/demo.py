"""`hsfiq demo`: a study on the drawn catalogue, served, or finished by simulated annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import progress, room
from hsfiq.cli.serve import HOST, PORT, PortOption
from hsfiq.errors import UnreadableInput


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq demo --answers 1000 --seed 1 --dir simulated")(demo)


def demo(
    ctx: typer.Context,
    port: PortOption = PORT,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Holds the demo's database and images.")
    ] = Path("hsfiq-demo"),
    answers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Do not serve: write a study of N simulated answers.", min=1
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Serve a study for `hsfiq simulate`, not for people."),
    ] = False,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Draws the catalogue, study and answers.")
    ] = 0,
    split: Annotated[
        str,
        typer.Option(
            metavar="train|val|test",
            help="Whose triplets --answers asks: test has combinations that training never shows.",
        ),
    ] = "val",
) -> None:
    """Serve a ready study on the drawn catalogue, or write one answered by simulation."""
    room("PIL", "annotate")
    from hsfiq import demo as demo_room
    from hsfiq.database import open_database
    from hsfiq.drawn.triplets import SPLITS

    asked = next((known for known in SPLITS if known == split), None)
    if asked is None:
        raise UnreadableInput(
            "--split", f"the catalogue has no split {split!r}", f"there are {', '.join(SPLITS)}"
        )
    if answers is None and asked != demo_room.SPLIT:
        raise UnreadableInput("--split", "the served study asks val", "add --answers N")
    url = demo_room.database_url(folder)
    if folder.exists() and not folder.is_dir():
        raise UnreadableInput(str(folder), "is there and is no folder")
    folder.mkdir(parents=True, exist_ok=True)
    database = open_database(url)
    ctx.call_on_close(database.close)
    with database.reading() as session:
        there = demo_room.demo_study(session)
        is_there = there is not None
        if there is not None and answers is None and (there.origin == "simulated") != simulated:
            raise UnreadableInput(
                str(folder),
                f"holds a demo whose answers are {there.origin}",
                "name another with --dir, or see --simulated",
            )
    if answers is not None:
        if is_there:
            raise UnreadableInput(str(folder), "holds a demo already", "name another with --dir")
        track = progress("annotators")
        demo_room.make_answered_study(database, folder, answers, seed, track, asked)
        typer.echo(f"{url}: {answers:,} answers by simulated annotators (seed {seed})")
        return
    app = room("annotate.app", "annotate")
    app.listening(HOST, port).close()  # a taken port is said before the drawing begins
    if not is_there:
        typer.echo("drawing the catalogue ...", err=True)
        design = demo_room.served_design(seed)
        demo_room.make_study(
            database, folder, design, demo_room.SERVED_PARTICIPANTS, simulated=simulated
        )
    typer.echo(f"the demo is at http://{HOST}:{port} (its database is {url}); Ctrl-C stops it")
    app.serve(database, host=HOST, port=port)
