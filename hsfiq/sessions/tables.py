"""Sessions as rows of two tables, which `hsfiq.analysis.sessions` measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.sessions.record import Round, Session, has_simulated_texts
from hsfiq.text import count_text

PEOPLE = "people"
SCRIPT = "script"


class Tables(NamedTuple):
    """Rows with the columns of `hsfiq.analysis.sessions.ranks`, and the triplet of each query."""

    sessions: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    triplets: dict[str, str]
    simulated: bool
    notes: list[str]


def tables_of(sessions: Sequence[Session], *, by_category: bool = False) -> Tables:
    """Sessions with the same settings are those of one system.

    Practice sessions are left out. A system's name gets the settings in which sessions differ.

    Raises:
        UnreadableInput: no session has a system, or a system has a session twice.
    """
    counted = [each for each in sessions if not each.is_practice and each.system is not None]
    if not counted:
        raise UnreadableInput(
            "sessions", "no system was searched in them", "play them first: hsfiq sessions play"
        )
    names = system_names(counted, by_category=by_category)
    twice, n = Counter(
        (name, each.session_id) for name, each in zip(names, counted, strict=True)
    ).most_common(1)[0]
    if n > 1:
        raise UnreadableInput("sessions", f"session {twice[1]} of {twice[0]} is given twice")
    return Tables(
        [session_row(name, each) for name, each in zip(names, counted, strict=True)],
        [
            round_row(name, each, part)
            for name, each in zip(names, counted, strict=True)
            for part in each.rounds
        ],
        {each.query_id: split_query_id(each.query_id)[0] for each in counted},
        any(map(has_simulated_texts, counted)),
        notes_on(names, counted, len(sessions) - len(counted)),
    )


def system_names(sessions: Sequence[Session], *, by_category: bool = False) -> list[str]:
    """A name of each session's system: its own, and the settings in which sessions differ."""
    settings = [
        (
            each.system or "",
            (each.category or "") if by_category else "",
            each.simulator or (PEOPLE if each.participant is not None else SCRIPT),
            each.history or "",
            each.chooser or "",
            "" if each.stop_at is None else f"stop at {each.stop_at}",
        )
        for each in sessions
    ]
    differs = [len(set(values)) > 1 for values in zip(*settings, strict=True)]
    differs[0] = differs[0] or not any(differs)
    return [
        ", ".join(value for value, shown in zip(values, differs, strict=True) if shown and value)
        for values in settings
    ]


def notes_on(names: Sequence[str], sessions: Sequence[Session], n_left_out: int) -> list[str]:
    """What a reader of the figures must know about the sessions."""
    notes = []
    if n_left_out:
        notes.append(
            f"{count_text(n_left_out, 'session')} of practice or without a system left out"
        )
    versions: dict[str, set[str | None]] = {}
    corpora: dict[str, set[str | None]] = {}
    for name, each in zip(names, sessions, strict=True):
        versions.setdefault(name, set()).add(each.system_version)
        sha256 = each.corpus.sha256 if each.corpus else None
        corpora.setdefault(each.query_id, set()).add(sha256)
    for name, known in versions.items():
        if len(known) > 1:
            notes.append(f"{name}: sessions of {len(known)} versions of the system")
    if n := sum(len(known) > 1 for known in corpora.values()):
        notes.append(f"{count_text(n, 'query', 'queries')} searched in different corpora")
    return notes


def session_row(name: str, session: Session) -> dict[str, Any]:
    return {
        "system": name,
        "session_id": session.session_id,
        "query_id": session.query_id,
        "participant_id": session.participant,
        "has_target": bool(session.targets) or any(each.rank for each in session.rounds),
        "stop_at": session.stop_at,
        "stop_reason": session.stop.reason if session.stop else None,
        "max_rounds": session.max_rounds,
    }


def round_row(name: str, session: Session, each: Round) -> dict[str, Any]:
    rank = each.rank or rank_in(each.shown, session.targets)
    return {
        "system": name,
        "session_id": session.session_id,
        "round": each.round,
        "rank": rank,
        "ties": each.ties,
        "earlier_ties": earlier_ties(each, rank),
        "depth": len(each.shown),
        "reference": each.reference,
        "words": None if each.text is None else len(each.text.split()),
        "is_repeated_text": each.is_repeated_text,
        "seconds": each.seconds,
        "satisfaction": each.satisfaction,
    }


def rank_in(shown: Sequence[str], targets: Iterable[str]) -> int | None:
    """The place of the first target in a list, from 1; None if it has none."""
    wanted = set(targets)
    return next((place for place, image in enumerate(shown, start=1) if image in wanted), None)


def earlier_ties(each: Round, rank: int | None) -> int | None:
    """How many images of the target's score come before it, if the list is long enough to tell."""
    if rank is None or rank > len(each.scores):
        return None
    return sum(score == each.scores[rank - 1] for score in each.scores[: rank - 1])
