"""The base class of the tables: names of constraints and types of columns."""

from __future__ import annotations

import base64
import hashlib
import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, DateTime, Index, MetaData, String, Text, TypeDecorator, text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcTime(TypeDecorator[datetime]):
    """An aware time, stored as UTC; SQLite drops time zones, so UTC is set again on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a time zone: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The base class of all tables; constraints are named, so that migrations can refer to them."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it as a plain class attribute)
        datetime: UtcTime(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
        list[int]: JSON(none_as_null=True),
        list[float]: JSON(none_as_null=True),
        list[list[int]]: JSON(none_as_null=True),
        str: Text(),
    }


class KeyedBase(Base):
    """The base class of tables with an integer as primary key."""

    __abstract__ = True

    id: Mapped[int] = mapped_column(primary_key=True)


def partial_index(name: str, *columns: str, where: str, sqlite_where: str = "") -> Index:
    """An index of the few rows that a condition holds for.

    SQLite uses it only for queries with the same words: `sqlite_where`, if they differ there.
    """
    return Index(
        name, *columns, sqlite_where=text(sqlite_where or where), postgresql_where=text(where)
    )


def new_token() -> str:
    """A random token for a link. No hyphen begins it: commands would take it for an option."""
    while (token := secrets.token_urlsafe(24)).startswith("-"):
        pass
    return token


def token_from(key: str, about: object = "") -> str | None:
    """The token that always belongs to a key; None, for a new one, if the key could be guessed."""
    return hashlib.sha256(f"{key} {about}".encode()).hexdigest()[:32] if len(key) >= 32 else None


DIGEST_LENGTH = 43


def digest_of(token: str) -> str:
    """What is stored of a token: its SHA-256 in URL-safe Base64. Tokens are too random to guess."""
    digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class WithToken(KeyedBase):
    """A row that is found by a token; only the token's digest is stored.

    `token` is known only to the object that was made with it, not to those read from the database.
    """

    __abstract__ = True

    token_hash: Mapped[str] = mapped_column(String(DIGEST_LENGTH), unique=True)

    def __init__(self, *, token: str | None = None, **values: Any) -> None:
        self.token = token or new_token()
        super().__init__(token_hash=digest_of(self.token), **values)


class CountsAnswers(Base):
    """A participant's answered questions by what was seen, without checks; reassigned ones count.

    Every image was painted, or not, or this is unknown, or the question was skipped: by the latest
    revisions, whose counts add up to `n_revisions`. `hsfiq.collect.answers` keeps the counts, so
    that the answers of a large study need not be counted.
    """

    __abstract__ = True

    n_painted: Mapped[int] = mapped_column(default=0, server_default="0")
    n_not_painted: Mapped[int] = mapped_column(default=0, server_default="0")
    n_painting_unknown: Mapped[int] = mapped_column(default=0, server_default="0")
    n_skipped: Mapped[int] = mapped_column(default=0, server_default="0")
    n_revisions: Mapped[int] = mapped_column(default=0, server_default="0")
