"""The record of a session, of simulators and of people.

A field at its default is unknown or does not apply, and is absent from files. Files of scripts,
which say what is asked but not what was found, have the same record without ranks and lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hsfiq.atomic_files import explained_write_errors, write_whole
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers.files import Place, kind, numbered_lines, parse_json, read_text

StopReason = Literal[
    "found", "found-other", "enough", "gave-up", "max-rounds", "no-feedback", "idle", "technical"
]
"""The reason of a session's end.

`found`: the target was in the list, or was declared; `found-other`: another image was declared;
`no-feedback`: the simulator had no text for the next round.
"""

Task = Literal["target-shown", "target-remembered", "own-wish"]
"""The target of a participant: an image in view, an image shown before, or a wish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The images that are searched. `sha256` is that of their ids in order, one a line."""

    name: str
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why and after which round a session ended, and the image that a participant declared."""

    reason: StopReason
    round: int
    declared: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The query of a round, and its ranked list.

    Attributes:
        round: its number, from 1.
        reference: none where a search begins with a text alone.
        shown: the first images of the list, best first, with their `scores`.
        rank: of the best target: the images scored above it, those of its score earlier in the
            corpus, and 1.
        ties: how many other images have the target's score.
        candidate: the image that the next text is about: the reference of the next round.
        seconds: from the question to the list.
        is_repeated_text: the simulator had nothing to say, since the reference is a target, and
            repeated its last text.
        satisfaction: with the list, from 1 to 5.
        nearest: the image that the participant clicked as nearest to the target.
        active_seconds: that the participant spent on the list and the next text.
    """

    round: int
    reference: str | None = None
    text: str | None = None
    shown: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    rank: int | None = None
    ties: int | None = None
    candidate: str | None = None
    seconds: float | None = None
    is_repeated_text: bool = False
    satisfaction: int | None = None
    nearest: str | None = None
    active_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("round", 1), ("rank", 1), ("ties", 0), ("seconds", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InvalidRecord(f"{name} {value} of round {self.round} is below {least}")
        if self.scores and len(self.scores) != len(self.shown):
            raise InvalidRecord(
                f"round {self.round} shows {len(self.shown)} images with {len(self.scores)} scores"
            )
        if len(set(self.shown)) < len(self.shown):
            raise InvalidRecord(f"round {self.round} shows a repeated image")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One search for one query.

    Attributes:
        query_id: people and systems that searched for the same query are compared.
        system: none in a script.
        system_version: sha256 of the checkpoint.
        simulator: the source of the texts; none for people.
        simulator_version: the model and the sha256 of the prompts of a language model.
        history: how the queries of all rounds are combined.
        chooser: the rule for the image that the next text refers to.
        category: the dataset's category or subset.
        targets: the images that are searched for, the first one being the dataset's target.
        excluded: images that are no candidates in any round.
        stop_at: a session ends when the rank is this or better; none if it goes on.
        max_rounds: the number of rounds after which a session ends.
        is_simulated: the texts are those of a simulated participant, or a script's that a
            simulator or a language model gave.
        place: which of the participant's sessions it is, from 1.
        satisfaction, ease: from 1 to 5, at the end.
    """

    session_id: str
    query_id: str
    rounds: tuple[Round, ...]
    system: str | None = None
    system_version: str | None = None
    simulator: str | None = None
    simulator_version: str | None = None
    history: str | None = None
    chooser: str | None = None
    corpus: Corpus | None = None
    category: str | None = None
    seed: int | None = None
    targets: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    stop_at: int | None = None
    max_rounds: int | None = None
    stop: Stop | None = None
    participant: str | None = None
    study: str | None = None
    task: Task | None = None
    is_practice: bool = False
    is_simulated: bool = False
    place: int | None = None
    satisfaction: int | None = None
    ease: int | None = None
    would_go_on: bool | None = None
    active_seconds: float | None = None

    def __post_init__(self) -> None:
        if not self.session_id or not self.query_id:
            raise InvalidRecord("a session needs a session_id and a query_id")
        if not self.rounds:
            raise InvalidRecord(f"session {self.session_id} has no round")
        if [each.round for each in self.rounds] != list(range(1, len(self.rounds) + 1)):
            raise InvalidRecord(f"the rounds of session {self.session_id} are not numbered 1, 2, …")
        if self.stop is not None and self.stop.round != len(self.rounds):
            raise InvalidRecord(
                f"session {self.session_id} has {len(self.rounds)} rounds, but stops after "
                f"round {self.stop.round}"
            )
        for name in ("stop_at", "max_rounds", "place"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRecord(f"{name} {value} of session {self.session_id} is below 1")

    @property
    def final_rank(self) -> int | None:
        """The target's rank in the last round."""
        return self.rounds[-1].rank


SCRIPTED = "scripted"
"""The simulator that gives the texts of a script, which may be people's."""


def has_simulated_texts(session: Session) -> bool:
    """Whether the texts are known not to be people's."""
    return session.is_simulated or session.simulator not in (None, SCRIPTED)


def references(rounds: Sequence[Round]) -> tuple[str, ...]:
    """The images that the texts of these rounds are about."""
    return tuple(each.reference for each in rounds if each.reference is not None)


# Sessions as JSON lines: one session a line, and what is unknown absent.

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
        raise UnreadableInput(
            str(path), "contains no session", "a session is one JSON object a line"
        )
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
