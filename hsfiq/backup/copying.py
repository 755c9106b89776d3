"""Copying a database into an empty one of either kind, row by row and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, select, text
from sqlalchemy.exc import DBAPIError

from hsfiq.atomic_files import new_private_file
from hsfiq.backup.backups import engine_for, explained_errors, require_unused
from hsfiq.backup.postgres_archives import ALL_TABLES
from hsfiq.db.engine import connect, connect_existing
from hsfiq.db.schema import (
    create_or_migrate,
    foreign_keys_off,
    require_current,
    require_foreign_keys,
)
from hsfiq.db.sqlite import file_of, is_fresh_sqlite
from hsfiq.db.tables import Base
from hsfiq.db.urls import shown_url
from hsfiq.errors import NothingToDo, UnreadableInput

ROWS_AT_ONCE = 1000

SEQUENCES = text(
    "SELECT pg_get_serial_sequence(quote_ident(table_name), column_name), table_name, column_name "
    "FROM information_schema.columns WHERE table_schema = current_schema() "
    "AND pg_get_serial_sequence(quote_ident(table_name), column_name) IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class TableContent:
    """The number of a table's rows, and a digest of their values in any order."""

    rows: int
    sha256: str


Content = Mapping[str, TableContent]


def copy_database(source: str, target: str) -> Content:
    """Copy all rows of one state of a database into an empty one: all of them, or nothing.

    Raises:
        UnreadableInput: a URL cannot be used, the source is not upgraded, or the target holds
            something.
        NothingToDo: there is no source, or the target would differ from it.
    """
    with engine_for(source, connect_existing) as engine:
        if is_fresh_sqlite(engine.url):
            raise NothingToDo(f"{shown_url(source)}: there is no database yet")
        require_current(engine, source)
        with reader(engine) as connection, engine_for(target) as into:
            if into.dialect.name == "postgresql":
                return into_postgres(connection, into, shown_url(target))
            path = file_of(into.url)
            if path is None:
                where = shown_url(target)
                raise UnreadableInput(where, "is kept in memory only", "name a file")
            require_unused(path)
            with explained_errors(path), new_private_file(path) as draft:
                return into_sqlite(connection, draft, shown_url(target))


@contextmanager
def reader(engine: Engine) -> Iterator[Connection]:
    """A connection that sees one state, whatever others write meanwhile."""
    level = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    with engine.connect().execution_options(**level) as connection, connection.begin():
        yield connection


def into_postgres(source: Connection, engine: Engine, where: str) -> Content:
    """Make the tables and fill them in one transaction."""
    with engine.begin() as target:
        if target.scalar(ALL_TABLES):
            raise UnreadableInput(where, "has tables already", "name a database without tables")
        create_or_migrate(target)
        content = filled(source, target, where)
        for sequence, table, column in target.execute(SEQUENCES).all():
            highest = select(func.max(Base.metadata.tables[table].c[column])).scalar_subquery()
            target.execute(select(func.setval(sequence, highest)).where(highest.is_not(None)))
        return content


def into_sqlite(source: Connection, draft: Path, where: str) -> Content:
    """Make the tables in an empty file, and fill them."""
    engine = connect(f"sqlite:///{draft}")
    try:
        with (
            engine.execution_options(hsfiq_writes=True).connect() as target,
            foreign_keys_off(target),
            target.begin(),
        ):
            create_or_migrate(target)
            content = filled(source, target, where)
            require_foreign_keys(target)
            return content
    finally:
        engine.dispose()


def filled(source: Connection, target: Connection, where: str) -> Content:
    """Copy all tables, and compare what was read with what is there afterwards."""
    content = {}
    for table in Base.metadata.sorted_tables:
        copied = Digest()
        with refused_values(where, table):
            for rows in batches(source, table):
                copied.add(rows)
                target.execute(table.insert(), [dict(row) for row in rows])
        written = Digest()
        for rows in batches(target, table):
            written.add(rows)
        content[table.name] = copied.content()
        if written.content() != copied.content():
            raise NothingToDo(f"{where}: table {table.name} would differ; nothing was copied")
    return content


@contextmanager
def refused_values(where: str, table: Table) -> Iterator[None]:
    """Name the table whose values the target refuses, such as a NUL character in PostgreSQL."""
    try:
        yield
    except DBAPIError as error:
        lines = str(error.orig).strip().splitlines() or ["no reason given"]
        raise UnreadableInput(
            where, f"refuses a row of table {table.name} ({lines[0]}); nothing was copied"
        ) from error


def batches(connection: Connection, table: Table) -> Iterator[list[Mapping[str, Any]]]:
    """All rows in the order of the primary key, so that rows come after those they refer to."""
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_ONCE)
    for rows in connection.execute(query).mappings().partitions(ROWS_AT_ONCE):
        yield [dict(row) for row in rows]


class Digest:
    """The sum of the rows' digests, which does not depend on their order.

    Databases sort texts differently.
    """

    def __init__(self) -> None:
        self._rows = self._sum = 0

    def add(self, rows: list[Mapping[str, Any]]) -> None:
        for row in rows:
            values = repr(tuple(row.values())).encode("utf-8", "surrogatepass")
            self._sum += int.from_bytes(hashlib.sha256(values).digest(), "big")
        self._rows += len(rows)

    def content(self) -> TableContent:
        return TableContent(self._rows, f"{self._sum % 2**256:064x}")
