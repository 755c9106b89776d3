"""The SQL statements of a piece of work, and which tables their plans read from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from sqlalchemy import Connection, Engine, event

LARGE_TABLES = (
    *("responses", "questions", "checks", "check_answers", "forms", "participants"),
    *("pairs", "retrieved_sets", "retrieved_images"),
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the driver got it."""

    text: str
    parameters: Any

    @property
    def is_query(self) -> bool:
        return self.text.lstrip().startswith(("SELECT", "WITH"))


@dataclass(slots=True)
class Recorded:
    statements: list[Statement] = field(default_factory=list)

    def queries(self) -> list[Statement]:
        """The different queries, each with its first parameters."""
        return list(
            {each.text: each for each in reversed(self.statements) if each.is_query}.values()
        )


@contextmanager
def recorded_statements() -> Iterator[Recorded]:
    """Record the statements of every database of this process, without PRAGMAs and locks."""
    recorded = Recorded()

    def record(_c: Any, _cursor: Any, text: str, parameters: Any, _x: Any, many: bool) -> None:
        if not text.startswith(("PRAGMA", "BEGIN", "SET ")):
            recorded.statements.append(Statement(text, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield recorded
    finally:
        event.remove(Engine, "before_cursor_execute", record)


def slowest(connection: Connection, statements: list[Statement]) -> tuple[Statement, float]:
    """The query that takes longest when it is run again and all its rows are read."""
    return max(
        ((statement, seconds_of(connection, statement)) for statement in statements),
        key=lambda timed: timed[1],
    )


def seconds_of(connection: Connection, statement: Statement) -> float:
    begun = perf_counter()
    result = connection.exec_driver_sql(statement.text, statement.parameters)
    while result.fetchmany(10_000):
        pass
    return perf_counter() - begun


def plan_of(connection: Connection, statement: Statement) -> list[str]:
    """The lines of the database's plan."""
    word = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    rows = connection.exec_driver_sql(f"{word} {statement.text}", statement.parameters)
    return [str(row[-1]) for row in rows]


def full_scans(connection: Connection, statement: Statement) -> list[str]:
    """The large tables that the plan reads from end to end, each once."""
    if connection.dialect.name == "sqlite":
        lines = plan_of(connection, statement)
        names = [match[1] for line in lines if (match := re.match(r"SCAN (\w+)", line))]
        tables = {alias: table for table, alias in aliases_in(statement.text)}
        scanned = [tables.get(name, name) for name in names]
    else:
        rows = connection.exec_driver_sql(
            f"EXPLAIN (FORMAT JSON) {statement.text}", statement.parameters
        )
        (plan,) = rows.scalar_one()
        scanned = list(sequential_scans(plan["Plan"]))
    return [table for table in LARGE_TABLES if table in scanned]


def aliases_in(text: str) -> list[tuple[str, str]]:
    """The tables that a statement names otherwise, with their other names."""
    return re.findall(r"(?:FROM|JOIN|,)\s+(\w+) AS (\w+)", text)


def sequential_scans(node: dict[str, Any]) -> Iterator[str]:
    """The tables that a node of PostgreSQL's plan, or one below it, reads from end to end.

    Reading a whole index without a condition is one, too.
    """
    is_index = node["Node Type"] in ("Index Scan", "Index Only Scan")
    if node["Node Type"] == "Seq Scan" or (is_index and "Index Cond" not in node):
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from sequential_scans(child)
