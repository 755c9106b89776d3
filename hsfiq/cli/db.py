"""`hsfiq db`: the schema of the database, and backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.actors import Action
from hsfiq.cli import common
from hsfiq.errors import NothingToDo
from hsfiq.text import count_text

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from hsfiq.backup import Contents

app = common.Commands(
    help="Back up, restore and copy the database; show, check and upgrade its schema.",
    no_args_is_help=True,
)


@app.command(epilog="Example: hsfiq db upgrade --database postgresql://localhost/hsfiq")
def upgrade(call: common.JsonCall) -> None:
    """Create the database, or upgrade it to the newest schema."""
    from hsfiq.db import schema
    from hsfiq.db.failures import reachable, shown_url

    url, engine = connected(call)
    with reachable(url):
        before = schema.current_revision(engine)
        schema.upgrade(engine)
        after = schema.current_revision(engine)
    change = f"already at {after}"
    if before != after:
        change = f"{before or 'empty'} -> {after}"
        common.record_in(url, Action.DB_UPGRADE, change)
    result = {"before": before, "revision": after}
    call.print(result, f"{shown_url(url)}: {change}")


@app.command(epilog="Example: hsfiq db current")
def current(call: common.JsonCall) -> None:
    """Print the schema revision of the database."""
    from hsfiq.db import schema
    from hsfiq.db.failures import reachable, shown_url

    url, engine = existing(call)
    with reachable(url):
        revision = schema.current_revision(engine)
    newest = schema.head_revision()
    note = "the newest" if revision == newest else f"the newest is {newest}: run `hsfiq db upgrade`"
    line = f"{shown_url(url)}: {revision or 'no revision'} ({note})"
    call.print({"revision": revision, "newest": newest}, line)


@app.command(epilog="Example: hsfiq db check")
def check(call: common.JsonCall) -> None:
    """Compare the database's tables with those of this version.

    The exit code is 1 if the tables differ.
    """
    from hsfiq.db import schema
    from hsfiq.db.failures import reachable, shown_url

    url, engine = existing(call)
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
    line = f"{shown_url(url)}: at {revision}, and the tables match it"
    call.print({"revision": revision}, line)


@app.command(epilog="Example: hsfiq db backup backups/2026-03-01.backup")
def backup(
    call: common.JsonCall,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
) -> None:
    """Write the database to a new file and verify it.

    The backup is consistent even while `hsfiq serve` runs. Backups of PostgreSQL need pg_dump and
    pg_restore.
    """
    from hsfiq.backup import back_up

    url = call.url
    done = back_up(url, file)
    common.record_in(url, Action.DB_BACKUP)
    line = f"{file}: {described(done.contents)}; {done.size:,} bytes, sha256 {done.sha256}"
    call.print(done.facts(), line)


@app.command(epilog="Example: hsfiq db restore old.backup --database sqlite:///restored.db")
def restore(
    call: common.JsonCall,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of `hsfiq db backup`.")],
) -> None:
    """Restore a backup into an empty database.

    The database is a new SQLite file, or a PostgreSQL database without tables.
    """
    from hsfiq.backup import restore as restore_backup
    from hsfiq.db.failures import shown_url
    from hsfiq.db.schema import head_revision

    url = call.url
    contents = restore_backup(file, url)
    common.record_in(url, Action.DB_RESTORE)
    note = "" if contents.revision == head_revision() else "; run `hsfiq db upgrade`"
    line = f"{shown_url(url)}: {described(contents)}{note}"
    call.print({"database": shown_url(url)} | contents.facts(), line)


@app.command(epilog="Example: hsfiq db copy sqlite:///hsfiq.db postgresql://localhost/hsfiq")
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The URL of the database.")],
    target: Annotated[
        str,
        typer.Argument(metavar="TO", help="A new SQLite file or an empty PostgreSQL database."),
    ],
    as_json: common.JsonOption = False,
) -> None:
    """Copy a database into an empty one of either kind.

    All rows are copied, or none. Row counts and values of each table are compared before the copy
    is committed. Image files are not copied.
    """
    from hsfiq.backup import copy_database
    from hsfiq.db.failures import shown_url

    for url in (source, target):
        common.warn_of_password(url)
    content = copy_database(source, target)
    common.record_in(source, Action.DB_COPY, "to another database")
    common.record_in(target, Action.DB_COPY, "from another database")
    tables = {name: {"rows": table.rows, "sha256": table.sha256} for name, table in content.items()}
    rows = sum(table.rows for table in content.values())
    counts = f"{count_text(rows, 'row')} in {count_text(len(tables), 'table')}"
    line = f"{shown_url(target)}: {counts}, equal to {shown_url(source)}"
    result = {"from": shown_url(source), "to": shown_url(target), "tables": tables}
    common.print_result(result, line, as_json=as_json)


def described(contents: Contents) -> str:
    """The studies, participants and answers of a database, and its schema revision."""
    studies = ", ".join(
        f"{study.study} ({count_text(study.participants, 'participant')}, "
        f"{count_text(study.answers, 'answer')})"
        for study in contents.studies
    )
    counts = count_text(len(contents.studies), "study", "studies")
    return f"{counts}: {studies or 'none'}; schema revision {contents.revision}"


def connected(call: common.Call) -> tuple[str, Engine]:
    """The database's URL and an engine for it, disposed of when the command ends."""
    from hsfiq.db.engine import connect

    url = call.url
    engine = connect(url)
    call.ctx.call_on_close(engine.dispose)
    return url, engine


def existing(call: common.Call) -> tuple[str, Engine]:
    from hsfiq.db.engine import connect_existing
    from hsfiq.db.failures import shown_url
    from hsfiq.db.sqlite import is_fresh_sqlite

    url = call.url
    engine = connect_existing(url)
    call.ctx.call_on_close(engine.dispose)
    if is_fresh_sqlite(engine.url):
        raise NothingToDo(f"{shown_url(url)}: the database does not exist yet")
    return url, engine
