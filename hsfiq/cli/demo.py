"""`hsfiq demo`: a study on the drawn catalogue, served, or finished by simulated annotators.

With `--full`, the whole loop: `hsfiq.cli.full_demo.run`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import progress, room
from hsfiq.cli.serve import HOST, PORT, PortOption
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.db.engine import Database
    from hsfiq.db.tables import Study
    from hsfiq.drawn.triplets import Split

FOLDER, FULL_FOLDER = Path("hsfiq-demo"), Path("hsfiq-demo-full")
SPLIT = "val"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: hsfiq demo --answers 1000 --seed 1 --dir simulated")(demo)


def demo(
    ctx: typer.Context,
    port: PortOption = PORT,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help=f"Holds the demo's database and images [{FOLDER}; with --full {FULL_FOLDER}].",
        ),
    ] = None,
    participants: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Serve a study with room for N visitors [12].", min=1, max=10_000
        ),
    ] = None,
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
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Run the whole loop once, in minutes: train, serve, simulate, export, retrain, "
            "score, analyze, ask on.",
        ),
    ] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="With --full: do not open the report in a browser.")
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
    ] = SPLIT,
) -> None:
    """Serve a ready study on the drawn catalogue, write an answered one, or run the whole loop."""
    asked = chosen_split(split)
    if full:
        require_alone(
            {
                "--answers": answers is not None,
                "--simulated": simulated,
                "--participants": participants is not None,
                "--split": asked != SPLIT,
            }
        )
        room("PIL", "annotate")
        from hsfiq.cli.full_demo import run as full_demo

        full_demo.run(folder or FULL_FOLDER, port, seed, opens=not no_open)
        return
    if no_open:
        raise UnreadableInput("--no-open", "opens nothing anyway", "it goes with --full")
    if answers is None and asked != SPLIT:
        raise UnreadableInput("--split", "the served study asks val", "add --answers N")
    if answers is not None and participants is not None:
        raise UnreadableInput("--participants", "does not go with --answers", "leave one out")
    room("PIL", "annotate")
    folder = folder or FOLDER
    if answers is not None:
        write(ctx, folder, answers, seed, asked)
    else:
        serve(ctx, folder, port, seed, participants, simulated=simulated)


def chosen_split(name: str) -> Split:
    """The split of this name.

    Raises:
        UnreadableInput: the catalogue has none.
    """
    from hsfiq.drawn.triplets import SPLITS

    asked = next((known for known in SPLITS if known == name), None)
    if asked is None:
        raise UnreadableInput(
            "--split", f"the catalogue has no split {name!r}", f"there are {', '.join(SPLITS)}"
        )
    return asked


def require_alone(given: dict[str, bool]) -> None:
    """Refuse the options that say otherwise than --full.

    Raises:
        UnreadableInput: one of them was given.
    """
    for option, is_there in given.items():
        if is_there:
            raise UnreadableInput(option, "does not go with --full", "leave one out")


def opened(ctx: typer.Context, folder: Path) -> tuple[Database, Study | None]:
    """The database in the folder, both made where they are not there, and its study if any.

    Raises:
        UnreadableInput: the folder is none.
    """
    from hsfiq import demo as demo_room
    from hsfiq.db.engine import open_database

    if folder.exists() and not folder.is_dir():
        raise UnreadableInput(str(folder), "is there and is no folder")
    folder.mkdir(parents=True, exist_ok=True)
    database = open_database(demo_room.database_url(folder))
    ctx.call_on_close(database.close)
    with database.reading() as session:
        return database, demo_room.demo_study(session)


def write(ctx: typer.Context, folder: Path, answers: int, seed: int, split: Split) -> None:
    """Write a study that simulated annotators have answered.

    Raises:
        UnreadableInput: the folder holds a demo, or is none.
    """
    from hsfiq import demo as demo_room

    database, there = opened(ctx, folder)
    if there is not None:
        raise UnreadableInput(str(folder), "holds a demo already", "name another with --dir")
    track = progress("annotators")
    demo_room.make_answered_study(database, folder, answers, seed, track, split)
    url = demo_room.database_url(folder)
    typer.echo(f"{url}: {answers:,} answers by simulated annotators (seed {seed})")


def serve(
    ctx: typer.Context,
    folder: Path,
    port: int,
    seed: int,
    participants: int | None,
    *,
    simulated: bool,
) -> None:
    """Serve the study in the folder, or one that is made now.

    Raises:
        UnreadableInput: the study there is for others, or was to have room for as many as it has;
            the folder is none, or the port is taken.
    """
    from hsfiq import demo as demo_room

    database, there = opened(ctx, folder)
    if there is not None and (there.origin == "simulated") != simulated:
        raise UnreadableInput(
            str(folder),
            f"holds a demo whose answers are {there.origin}",
            "name another with --dir, or see --simulated",
        )
    if there is not None and participants is not None:
        raise UnreadableInput(
            "--participants",
            f"the study in {folder} has its room already",
            "leave it out, or name another --dir",
        )
    app = room("hsfiq.annotate.app", "annotate")
    app.listening(HOST, port).close()  # a taken port is said before the drawing begins
    if there is None:
        typer.echo("drawing the catalogue ...", err=True)
        design = demo_room.served_design(seed)
        n_participants = participants or demo_room.SERVED_PARTICIPANTS
        demo_room.make_study(database, folder, design, n_participants, simulated=simulated)
    url = demo_room.database_url(folder)
    typer.echo(f"the demo is at http://{HOST}:{port} (its database is {url}); Ctrl-C stops it")
    app.serve(database, host=HOST, port=port)
