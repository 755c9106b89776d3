"""`hsfiq serve`: the annotation app on an existing database."""

from __future__ import annotations

from typing import Annotated

import typer

from hsfiq.cli.common import DatabaseOption, open_chosen, requires
from hsfiq.public_url import public_url as public_address

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
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address at which browsers reach the server behind a proxy, with its path; "
            "else $HSFIQ_PUBLIC_URL.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Serve the annotation app for the studies of a database."""
    public = public_address(public_url)
    with requires("annotate"):
        from hsfiq.annotate import app
    opened = open_chosen(ctx, database, create=False)
    reached = f" for {public}" if public else ""
    typer.echo(f"serving at http://{host}:{port}{reached}; Ctrl-C stops it", err=True)
    app.serve(opened, host=host, port=port, public=public)
