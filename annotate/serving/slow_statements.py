"""A line of the log for each statement that took long: its text, without values."""

from __future__ import annotations

from logging import getLogger
from time import perf_counter
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import ExceptionContext

LONGEST_SHOWN = 2000

BEGUN = "hsfiq_statement_begun"

logger = getLogger(__name__)


def log_slow_statements(engine: Engine, seconds: float) -> None:
    """Log statements from now on that take so many seconds, also if they fail."""

    def begin(connection: Connection, *_: Any) -> None:
        connection.info[BEGUN] = perf_counter()

    def end(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        tell(connection, statement)

    def fail(context: ExceptionContext) -> None:
        if context.connection is not None and context.statement is not None:
            tell(context.connection, context.statement)

    def tell(connection: Connection, statement: str) -> None:
        took = perf_counter() - connection.info.pop(BEGUN, perf_counter())
        if took >= seconds:
            text = " ".join(statement.split())[:LONGEST_SHOWN]
            facts = {"seconds": round(took, 3), "statement": text}
            logger.warning("slow statement, %.3f s: %s", took, text, extra={"facts": facts})

    event.listen(engine, "before_cursor_execute", begin)
    event.listen(engine, "after_cursor_execute", end)
    event.listen(engine, "handle_error", fail)
