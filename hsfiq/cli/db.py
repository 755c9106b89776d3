"""`hsfiq db`: the schema of the database."""

from __future__ import annotations

import typer

from hsfiq.cli.common import DatabaseOption, database_url
from hsfiq.errors import NothingToDo

app = typer.Typer(
    help="Look at the database's schema and bring it up to date.", no_args_is_help=True
)


@app.command(epilog="Example: hsfiq db upgrade --database postgresql://localhost/hsfiq")
def upgrade(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Bring the database to the newest schema revision; make it where there is none."""
    from hsfiq.db import engine as db

    url = database_url(ctx, database)
    engine = db.connect(url)
    ctx.call_on_close(engine.dispose)
    with db.reachable(url):
        before = db.current_revision(engine)
        db.upgrade(engine)
        after = db.current_revision(engine)
    if before == after:
        typer.echo(f"{db.shown_url(url)}: already at {after}")
    else:
        typer.echo(f"{db.shown_url(url)}: {before or 'empty'} -> {after}")


@app.command(epilog="Example: hsfiq db current")
def current(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Print the schema revision of the database."""
    from hsfiq.db import engine as db

    url = database_url(ctx, database)
    engine = db.connect(url)
    ctx.call_on_close(engine.dispose)
    if db.is_fresh_sqlite(engine.url):
        raise NothingToDo(f"{db.shown_url(url)}: there is no database yet")
    with db.reachable(url):
        found = db.current_revision(engine)
    newest = db.head_revision()
    note = "the newest" if found == newest else f"the newest is {newest}: run `hsfiq db upgrade`"
    typer.echo(f"{db.shown_url(url)}: {found or 'no revision'} ({note})")


@app.command(epilog="Example: hsfiq db check")
def check(ctx: typer.Context, database: DatabaseOption = None) -> None:
    """Compare the database's tables with those this hsfiq knows; exit code 1 if they differ."""
    from hsfiq.db import engine as db

    url = database_url(ctx, database)
    engine = db.connect(url)
    ctx.call_on_close(engine.dispose)
    if db.is_fresh_sqlite(engine.url):
        raise NothingToDo(f"{db.shown_url(url)}: there is no database yet")
    with db.reachable(url):
        found = db.current_revision(engine)
        different = db.differences(engine)
    if found != db.head_revision():
        raise NothingToDo(
            f"{db.shown_url(url)}: at {found or 'no revision'}, not at {db.head_revision()}; "
            "run `hsfiq db upgrade`"
        )
    if different:
        raise NothingToDo(f"{db.shown_url(url)}: the tables differ: {'; '.join(different)}")
    typer.echo(f"{db.shown_url(url)}: at {found}, and the tables are as they should be")
