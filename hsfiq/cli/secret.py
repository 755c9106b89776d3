"""`hsfiq secret`: the file of the key that signs cookies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli.common import DatabaseOption, open_chosen
from hsfiq.cli.recording import record_command
from hsfiq.errors import UnreadableInput

app = typer.Typer(help="The file of the key that signs cookies and pages.", no_args_is_help=True)


@app.command(epilog="Example: hsfiq secret create /etc/hsfiq/secret")
def create(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    database: DatabaseOption = None,
) -> None:
    """Move the signing key from the database to a new file; logins and links stay valid.

    Name the file in HSFIQ_SECRET_FILE and start the server again.
    """
    from hsfiq.access import VARIABLE, create_file
    from hsfiq.actors import command_line

    create_file(open_chosen(ctx, database, create=False), file, command_line())
    typer.echo(f"{file}: holds the signing key; start the server with {VARIABLE}={file}")


@app.command(epilog="Example: hsfiq secret rotate --forget")
def rotate(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Else $HSFIQ_SECRET_FILE.", show_default=False),
    ] = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="The last key is not valid any more: everybody follows their link again.",
        ),
    ] = False,
    database: DatabaseOption = None,
) -> None:
    """Put a new signing key into the file; the last one stays valid until the next rotation.

    The server uses it after its next start.
    """
    from hsfiq.access import VARIABLE
    from hsfiq.access import rotate as rotate_keys

    named = os.environ.get(VARIABLE)
    chosen = file or (Path(named) if named else None)
    if chosen is None:
        raise UnreadableInput("FILE", f"none is named, and {VARIABLE} is not set")
    opened = open_chosen(ctx, database, create=False)
    with opened.writing() as session:
        about = "the last key is not valid any more" if forget else ""
        record_command(session, Action.SECRET_ROTATE, about=about)
        rotate_keys(chosen, forget=forget)
    typer.echo(f"{chosen}: holds a new signing key; start the server again")
