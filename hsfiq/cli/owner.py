"""`hsfiq owner`: the password of the account `owner`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import DatabaseOption, open_chosen, requires
from hsfiq.cli.recording import record_command
from hsfiq.errors import UnreadableInput

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
    """Set the password of the account owner of the dashboard at /owner; this ends its logins."""
    from hsfiq.access import new_hash, set_owner_password
    from hsfiq.readers.files import read_text

    # Opened before the prompt, so that a missing database is reported first.
    opened = open_chosen(ctx, database, create=False)
    if from_file is not None:
        lines = read_text(from_file).splitlines()
        chosen = lines[0] if lines else ""
    elif sys.stdin.isatty():
        chosen = typer.prompt("Password", hide_input=True, confirmation_prompt="Repeat it")
    else:
        # Nothing can be hidden or repeated: getpass would only warn of it.
        chosen = sys.stdin.readline().rstrip("\r\n")
        if not chosen:
            raise UnreadableInput(
                "standard input",
                "there is neither a terminal nor a password",
                "use a terminal, or --from-file FILE",
            )
    with requires("annotate"):
        password_hash = new_hash(chosen)
    with opened.writing() as session:
        set_owner_password(session, password_hash)
        record_command(session, Action.PASSWORD_SET, about="owner")
    typer.echo("the owner's password is set; log in at /owner")
