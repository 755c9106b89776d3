"""`hsfiq db`: the schema of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hsfiq.cli.common import DatabaseOption, database_url
from hsfiq.errors import NothingToDo

if TYPE_CHECKING:
    from sqlalchemy import Engine

app = typer.Typer(help="Show, check and upgrade the database's schema.", no_args_is_help=True)


@app.command(epilog="Example: hsfiq db upgrade --database postgresql://localhost/hsfiq")
def upgrade(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Upgrade the database to the newest schema revision; create it if it does not exist."""
    from hsfiq.db import schema
    from hsfiq.db.urls import reachable, shown_url

    url, engine = connected(ctx, database)
    with reachable(url):
        before = schema.current_revision(engine)
        schema.upgrade(engine)
        after = schema.current_revision(engine)
    if before == after:
        typer.echo(f"{shown_url(url)}: already at {after}")
    else:
        typer.echo(f"{shown_url(url)}: {before or 'empty'} -> {after}")


@app.command(epilog="Example: hsfiq db current")
def current(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Print the schema revision of the database."""
    from hsfiq.db import schema
    from hsfiq.db.urls import reachable, shown_url

    url, engine = existing(ctx, database)
    with reachable(url):
        revision = schema.current_revision(engine)
    newest = schema.head_revision()
    note = "the newest" if revision == newest else f"the newest is {newest}: run `hsfiq db upgrade`"
    typer.echo(f"{shown_url(url)}: {revision or 'no revision'} ({note})")


@app.command(epilog="Example: hsfiq db check")
def check(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Compare the database's tables with those of this version; exit code 1 if they differ."""
    from hsfiq.db import schema
    from hsfiq.db.urls import reachable, shown_url

    url, engine = existing(ctx, database)
    with reachable(url):
        revision, newest = schema.current_revision(engine), schema.head_revision()
        different = schema.differences(engine)
    if revision != newest:
        raise NothingToDo(
            f"{shown_url(url)}: at {revision or 'no revision'}, not at {newest}; "
            "run `hsfiq db upgrade`"
        )
    if different:
        raise NothingToDo(f"{shown_url(url)}: the tables differ: {'; '.join(different)}")
    typer.echo(f"{shown_url(url)}: at {revision}, and the tables match it")


def connected(ctx: typer.Context, database: str | None) -> tuple[str, Engine]:
    """The database's URL and an engine for it, disposed of when the command ends."""
    from hsfiq.db.engine import connect

    url = database_url(ctx, database)
    engine = connect(url)
    ctx.call_on_close(engine.dispose)
    return url, engine


def existing(ctx: typer.Context, database: str | None) -> tuple[str, Engine]:
    from hsfiq.db.sqlite import is_fresh_sqlite
    from hsfiq.db.urls import shown_url

    url, engine = connected(ctx, database)
    if is_fresh_sqlite(engine.url):
        raise NothingToDo(f"{shown_url(url)}: there is no database yet")
    return url, engine
