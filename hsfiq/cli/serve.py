"""`hsfiq serve`: the annotation app on an existing database."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hsfiq.cli.common import DatabaseOption, open_chosen, requires
from hsfiq.public_url import public_url as public_address

HOST, PORT = "127.0.0.1", 7860

PortOption = Annotated[
    int, typer.Option(metavar="N", help="The port to listen on.", min=1, max=65535)
]


TOKEN_VARIABLE = "HSFIQ_METRICS_TOKEN_FILE"  # noqa: S105 (a variable's name)


AUTH_VARIABLE = "HSFIQ_AUTH_HEADER"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


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
    auth_header: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="A header, such as X-Remote-User, in which the proxy names the account that uses "
            "the dashboard. It counts only from the addresses in $FORWARDED_ALLOW_IPS "
            f"(127.0.0.1); else ${AUTH_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    metrics_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Answer /metrics, for Prometheus, to requests with the token in this file; "
            f"else ${TOKEN_VARIABLE}. Without a token, there is no /metrics.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option(help="json: one object in each line, and one line for each request."),
    ] = LogFormat.TEXT,
    slow_statement_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Log statements of the database that take longer, without their values.",
            min=0,
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(metavar="N", help="The processes that answer requests.", min=1, max=64),
    ] = 1,
    connections: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The most connections of each process to the database; 10 to PostgreSQL if not "
            "given.",
            min=2,
            max=1000,
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Serve the annotation app for the studies of a database."""
    public = public_address(public_url)
    with requires("annotate"):
        from hsfiq.annotate import app
        from hsfiq.annotate.serving.remote_user import checked_header, trusted_proxies
        from hsfiq.annotate.serving.watching import Watching, token_in
    header = auth_header or os.environ.get(AUTH_VARIABLE) or None
    if header is not None:
        checked_header(header)
        trusted_proxies()
    inherited = os.environ.get(TOKEN_VARIABLE)
    token_file = metrics_token_file or (Path(inherited) if inherited else None)
    token = token_in(token_file) if token_file else None
    watching = Watching(
        token, logs_json=log_format is LogFormat.JSON, slow_seconds=slow_statement_seconds
    )
    opened = open_chosen(ctx, database, create=False, connections=connections)
    reached = f" for {public}" if public else ""
    if not watching.logs_json:
        typer.echo(f"serving at http://{host}:{port}{reached}; Ctrl-C stops it", err=True)
    app.serve(opened, host, port, app.Serving(public, workers, connections, watching, header))
