"""`hsfiq serve`: the annotation app on an existing database."""

from __future__ import annotations

from typing import Annotated

import typer

from hsfiq.cli.common import DatabaseOption, open_chosen, requires

HOST, PORT = "127.0.0.1", 7860

PortOption = Annotated[
    int, typer.Option(metavar="N", help="The port to listen on.", min=1, max=65535)
]


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq serve --port 8000")(serve)


def serve(
    ctx: typer.Context,
    port: PortOption = PORT,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = HOST,
    database: DatabaseOption = None,
) -> None:
    """Serve the annotation app for the studies of a database."""
    with requires("annotate"):
        from hsfiq.annotate import app
    opened = open_chosen(ctx, database, create=False)
    typer.echo(f"serving at http://{host}:{port}; Ctrl-C stops it", err=True)
    app.serve(opened, host=host, port=port)
