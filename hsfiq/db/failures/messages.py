"""Errors of PostgreSQL without the rows and values that it quotes in them.

PostgreSQL adds the row that breaks a rule to its message (`DETAIL: Failing row contains ...`), and
names values of the wrong form. Both would put answers and participants' links into the log.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

DATA_EXCEPTION = "22"
"""The class of SQLSTATE whose messages name values."""


def remove_data_from_errors(engine: Engine) -> None:
    """Shorten the driver's errors, and SQLAlchemy's about them, before anybody sees them."""

    @event.listens_for(engine, "handle_error")
    def shorten(context: ExceptionContext) -> None:
        error = context.original_exception
        message = message_without_data(error)
        if message is None:
            return
        error.args = (message,)
        if context.sqlalchemy_exception is not None:
            name = f"{type(error).__module__}.{type(error).__name__}"
            context.sqlalchemy_exception.args = (f"({name}) {message}",)


def message_without_data(error: BaseException) -> str | None:
    """The first part of the server's message; None if the error is not the server's."""
    diagnosis: Any = getattr(error, "diag", None)
    primary, state = (getattr(diagnosis, key, None) for key in ("message_primary", "sqlstate"))
    if not primary:
        return None
    if state and str(state).startswith(DATA_EXCEPTION):
        return f"a value was refused (SQLSTATE {state})"
    return str(primary)
