"""`hsfiq owner`: the login to the study owner's dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import DatabaseOption, open_chosen

app = typer.Typer(help="The login to the study owner's dashboard.", no_args_is_help=True)


@app.callback()
def owner() -> None:
    """The login to the study owner's dashboard."""


@app.command(epilog="Example: hsfiq owner password")
def password(
    ctx: typer.Context,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="Read it from a file's first line."),
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Set the password of the dashboard at /owner; this ends all existing logins."""
    from hsfiq.access.owner_password import set_password
    from hsfiq.readers.files import read_text

    # Opened before the prompt, so that a missing database is reported first.
    opened = open_chosen(ctx, database, create=False)
    if from_file is not None:
        lines = read_text(from_file).splitlines()
        chosen = lines[0] if lines else ""
    else:
        chosen = typer.prompt("Password", hide_input=True, confirmation_prompt="Repeat it")
    with opened.writing() as session:
        set_password(session, chosen)
    typer.echo("the owner's password is set; log in at /owner")
