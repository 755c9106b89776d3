"""Sessions as JSON lines: one session a line, and what is unknown absent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers.files import Place, kind, numbered_lines, parse_json, read_text
from hsfiq.sessions.record import Session

FINAL_RANK = "final_rank"
"""A key that repeats the rank of the last round, for readers of the file."""


def read(path: Path) -> tuple[Session, ...]:
    """Read a file of sessions.

    Raises:
        UnreadableInput: it holds none, a line is no session, or an id occurs twice.
    """
    text = read_text(path)
    if text.lstrip().startswith("["):
        raise UnreadableInput(
            str(path),
            "is one JSON list, not one session a line",
            "play a script first: hsfiq sessions play --simulator scripted",
        )
    sessions: dict[str, Session] = {}
    for number, line in numbered_lines(text):
        where = f"{path}: line {number}"
        session = session_of(Place(parse_json(line, str(path), number), where))
        if session.session_id in sessions:
            raise UnreadableInput(where, f"session {session.session_id!r} occurs twice")
        sessions[session.session_id] = session
    if not sessions:
        raise UnreadableInput(str(path), "holds no session", "a session is one JSON object a line")
    return tuple(sessions.values())


def write(path: Path, sessions: Iterable[Session]) -> None:
    """Write sessions, completely or not at all."""
    content = "".join(line_of(session) for session in sessions)
    with explained_write_errors(path):
        write_whole(path, content.encode())


def line_of(session: Session) -> str:
    """A session as a line of a file, with its line feed."""
    return json.dumps(to_json(session), ensure_ascii=False) + "\n"


def to_json(session: Session) -> dict[str, Any]:
    """A session as a JSON object."""
    value = record_to_json(session)
    if session.final_rank is not None:
        value[FINAL_RANK] = session.final_rank
    return value


def record_to_json(record: Any) -> dict[str, Any]:
    """The fields of a record that are not at their default."""
    return {
        field.name: value_to_json(value)
        for field in fields(record)
        if (value := getattr(record, field.name)) != field.default
    }


def value_to_json(value: Any) -> Any:
    if is_dataclass(value):
        return record_to_json(value)
    return [value_to_json(each) for each in value] if isinstance(value, tuple) else value


def session_of(place: Place) -> Session:
    """Read a session; UnreadableInput names the place of what is wrong in it."""
    members = {name: value.value for name, value in place.items()}
    final_rank = members.pop(FINAL_RANK, None)
    session: Session = record_of(Session, Place(members, place.where))
    if final_rank is not None and final_rank != session.final_rank:
        raise place.wrong(
            f"final_rank is {kind(final_rank)}, but the last round has "
            + (f"rank {session.final_rank}" if session.final_rank else "no rank"),
            "leave out final_rank, or correct one of them",
        )
    return session


def record_of(cls: Any, place: Place) -> Any:
    types = types_of(cls)
    place.only(*types)
    for field in fields(cls):
        if field.default is MISSING:
            place.key(field.name)
    values = {
        name: value_of(types[name], place.key(name))
        for name, value in place.value.items()
        if value is not None
    }
    try:
        return cls(**values)
    except InvalidRecord as error:
        raise place.wrong(error.what) from error


@cache
def types_of(cls: type) -> dict[str, Any]:
    """The type of each field, without None."""
    return {name: without_none(hint) for name, hint in get_type_hints(cls).items()}


def without_none(hint: Any) -> Any:
    members = get_args(hint)
    return next(each for each in members if each is not NoneType) if NoneType in members else hint


def value_of(hint: Any, place: Place) -> Any:
    """Read a value of a field's type."""
    if get_origin(hint) is tuple:
        return tuple(value_of(get_args(hint)[0], each) for each in place.list())
    if get_origin(hint) is Literal:
        return one_of(get_args(hint), place)
    if is_dataclass(hint):
        return record_of(hint, place)
    readers = {int: place.integer, float: place.number, str: place.text, bool: place.truth}
    return readers[hint]()


def one_of(values: tuple[str, ...], place: Place) -> str:
    if place.text() not in values:
        raise place.wrong(f"unknown value {kind(place.value)}", f"use one of {', '.join(values)}")
    return place.text()
