"""`hsfiq study`: the studies of a database."""

from __future__ import annotations

import typer

from hsfiq.cli.common import (
    DatabaseOption,
    JsonOption,
    StudyOption,
    chosen_study,
    open_chosen,
    print_result,
)

app = typer.Typer(help="Look at the studies of the database.", no_args_is_help=True)


@app.command("list", epilog="Example: hsfiq study list")
def list_(ctx: typer.Context, database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the studies with their status and how far they are."""
    from hsfiq.store import progress_of, studies

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
    from hsfiq.store import progress_of

    with open_chosen(ctx, database, create=False).reading() as session:
        row = progress_of(session, chosen_study(session, study)).facts()
    print_result(row, "\n".join(f"{key}: {value}" for key, value in row.items()), as_json=as_json)
