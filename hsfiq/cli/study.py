"""`hsfiq study`: making studies, inviting people, opening and closing."""

from __future__ import annotations

import csv
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from hsfiq.cli import next_study
from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    open_chosen,
    print_result,
)
from hsfiq.errors import Mistake, UnreadableInput

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from hsfiq.db.tables import Study

app = typer.Typer(
    help="Make, open and close studies, invite people, see how far they are.", no_args_is_help=True
)
next_study.register(app)


@app.command("list", epilog="Example: hsfiq study list")
def list_(ctx: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the studies with their status and how far they are."""
    from hsfiq.collect.responses import progress_of, studies

    with open_chosen(ctx, database, create=False).reading() as session:
        rows = [progress_of(session, study).facts() for study in studies(session)]
    lines = [
        f"{row['study']}: {row['status']}, {row['origin']}, {row['answered']:,} of "
        f"{row['questions']:,} questions answered by {row['participants']:,} participants"
        for row in rows
    ]
    print_result({"studies": rows}, "\n".join(lines) or "no study yet", as_json=as_json)


@app.command(epilog="Example: hsfiq study status --study hpfiq")
def status(
    ctx: typer.Context,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how far one study is."""
    from hsfiq.collect.responses import progress_of

    with open_chosen(ctx, database, create=False).reading() as session:
        row = progress_of(session, chosen_study(session, study)).facts()
    print_result(row, "\n".join(f"{key}: {value}" for key, value in row.items()), as_json=as_json)


@app.command(epilog="Example: hsfiq study create study.toml")
def create(
    ctx: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The study's file.")],
    draft: Annotated[bool, typer.Option("--draft", help="Do not open it yet.")] = False,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="For `hsfiq simulate`: whatever is made from it says so."),
    ] = False,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a study from its file and open it; every mistake in the file is named at once."""
    from hsfiq.collect.responses import progress_of
    from hsfiq.study.config_file import located, read_config
    from hsfiq.study.design import draw_study
    from hsfiq.study.queries import chosen_queries

    wanted = read_config(config)
    try:
        with open_chosen(ctx, database, create=False).writing() as session:
            queries = chosen_queries(session, wanted)
            study = draw_study(
                session,
                wanted,
                queries,
                origin="simulated" if simulated else "collected",
                status="draft" if draft else "open",
            )
            row = progress_of(session, study).facts()
    except Mistake as mistake:
        raise located(config, mistake) from mistake
    line = (
        f"study {row['study']}: {row['questions']:,} questions about {len(queries):,} queries in "
        f"{row['forms']:,} forms; it is {row['status']}"
    )
    print_result(row, line, as_json=as_json)


@app.command("open", epilog="Example: hsfiq study open --study autumn")
def open_(
    ctx: typer.Context,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a study take participants and answers."""
    change_status(ctx, study, database, "open", as_json=as_json)


@app.command(epilog="Example: hsfiq study pause --study autumn")
def pause(
    ctx: typer.Context,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a study for a while: who is on the page sees why and can come back."""
    change_status(ctx, study, database, "paused", as_json=as_json)


@app.command(epilog="Example: hsfiq study close --study autumn")
def close(
    ctx: typer.Context,
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a study: who comes later gets a kind page and their completion code."""
    change_status(ctx, study, database, "closed", as_json=as_json)


def change_status(
    ctx: typer.Context, name: str | None, database: str | None, status: str, *, as_json: bool
) -> None:
    """Change a study's status and say so."""
    with open_chosen(ctx, database, create=False).writing() as session:
        study = running_study(session, name)
        result = {"study": study.name, "before": study.status, "status": status}
        study.status = status
    print_result(
        result, f"study {result['study']}: {result['before']} -> {status}", as_json=as_json
    )


def running_study(session: Session, name: str | None) -> Study:
    """The chosen study, if it is answered here.

    Raises:
        UnreadableInput: its answers were imported, or their simulation has ended.
    """
    from hsfiq.collect.responses import is_finished_for_good

    study = chosen_study(session, name)
    if is_finished_for_good(study):
        raise UnreadableInput(
            f"study {study.name}", f"holds {study.origin} answers and is finished for good"
        )
    return study


@app.command(epilog="Example: hsfiq study invite --count 61 --url https://study.example.org")
def invite(
    ctx: typer.Context,
    count: Annotated[int, typer.Option(help="How many invitations.", min=1, max=100_000)],
    url: Annotated[str, typer.Option(help="Where the app is reached from outside.")] = (
        "http://127.0.0.1:7860"
    ),
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The CSV of participants and their links.")
    ] = Path("invitations.csv"),
    study: StudyOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make personal links; each works in any browser and leads back to where one stood."""
    from hsfiq.collect.participants import invite as make

    if not url.startswith(("http://", "https://")):
        raise UnreadableInput("--url", f"{url!r} is no http(s) address")
    if out.exists():
        raise UnreadableInput(str(out), "is there already", "name another file with --out")
    with ExitStack() as if_it_fails:
        with open_chosen(ctx, database, create=False).writing() as session:
            chosen = running_study(session, study)
            made = make(session, chosen.id, count, now=datetime.now(UTC))
            # Within the transaction: links that could not be written were never made.
            with open_private(out) as file:
                if_it_fails.callback(out.unlink)
                writer = csv.writer(file)
                writer.writerow(["participant", "link"])
                writer.writerows([p.name, f"{url.rstrip('/')}/start/{p.token}"] for p in made)
        if_it_fails.pop_all()
    result = {"study": chosen.name, "invitations": count, "file": str(out)}
    print_result(result, f"study {chosen.name}: {count:,} invitations in {out}", as_json=as_json)


def open_private(path: Path) -> TextIO:
    """A new file that only its owner can read: whoever has a link is that participant."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(handle, "w", newline="", encoding="utf-8")


@app.command(epilog="Example: hsfiq study assign p7")
def assign(
    ctx: typer.Context,
    participant: Annotated[str, typer.Argument(help="The pseudonym, such as p7.")],
    study: StudyOption = None,
    database: DatabaseOption = None,
) -> None:
    """Give a participant's unanswered questions to whoever comes next, the lease not awaited."""
    from hsfiq.collect.participants import by_name, give_back

    with open_chosen(ctx, database, create=False).writing() as session:
        chosen = running_study(session, study)
        give_back(by_name(session, chosen, participant))
    typer.echo(f"study {chosen.name}: the questions {participant} left go to the next to come")
