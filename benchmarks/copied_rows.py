"""Writing many rows that are right by construction: COPY in PostgreSQL, `executemany` in SQLite.

An `INSERT` of SQLAlchemy prepares the parameters of each row by themselves, which takes several
times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, cast

from sqlalchemy import Column, Connection, Table, inspect

from hsfiq.db.types import Base

AT_ONCE = 20_000


def copy_rows(connection: Connection, table: type[Base], rows: Iterator[dict[str, Any]]) -> None:
    """Write rows that all have the same columns; the database fills in the others."""
    first = next(rows, None)
    if first is None:
        return
    stored = cast("Table", table.__table__)
    columns = {name: stored.c[attribute_column(table, name)] for name in first}
    lines = converted(connection, columns, chain([first], rows))
    names = ", ".join(f'"{column.name}"' for column in columns.values())
    cursor = cast("Any", connection.connection).cursor()
    if connection.dialect.name == "postgresql":
        with cursor.copy(f'COPY "{stored.name}" ({names}) FROM STDIN') as copy:
            for line in lines:
                copy.write_row(line)
        return
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {stored.name} ({names}) VALUES ({places})"
    while part := list(islice(lines, AT_ONCE)):
        cursor.executemany(statement, part)


def attribute_column(table: type[Base], name: str) -> str:
    return str(inspect(table).columns[name].key)


def converted(
    connection: Connection, columns: Mapping[str, Column[Any]], rows: Iterable[dict[str, Any]]
) -> Iterator[Sequence[Any]]:
    """The values of each row, in the order of the columns, as the driver stores them."""
    convert = [
        (place, processor)
        for place, column in enumerate(columns.values())
        if (processor := converter(connection, column)) is not None
    ]
    for row in rows:
        line = [row[name] for name in columns]
        for place, processor in convert:
            line[place] = processor(line[place])
        yield line


def converter(connection: Connection, column: Column[Any]) -> Callable[[Any], Any] | None:
    """What makes a Python value one that the driver stores; None if it stores it as it is."""
    kind = column.type.dialect_impl(connection.dialect)
    return kind.bind_processor(connection.dialect)
