"""Database URLs in messages: without passwords, and errors about a database that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from hsfiq.errors import UnreadableInput

_CREDENTIALS = re.compile(r"^(\w[\w+.-]*:/*)?.*@")
"""What stands before the host in a URL that SQLAlchemy cannot read; it may hold a password."""
_QUERY_PASSWORD = re.compile(r"([?&]\w*password=)[^&]*", re.IGNORECASE)


@contextmanager
def reachable(url: str) -> Iterator[None]:
    """Convert the driver's errors in this block to `UnreadableInput`."""
    try:
        yield
    except DBAPIError as error:
        raise unusable(url, error.orig) from error


def shown_url(url: str) -> str:
    try:
        url = make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        url = _CREDENTIALS.sub(r"\1***@", url)
    return _QUERY_PASSWORD.sub(r"\1***", url)


def has_password(url: str) -> bool:
    return "***" in shown_url(url) and "***" not in url


def unusable(url: str, error: BaseException | None) -> UnreadableInput:
    """The error for a database that cannot be reached or used, from its driver's error."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return UnreadableInput(shown_url(url), f"the database cannot be used ({lines[0]})")
