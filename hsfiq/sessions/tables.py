"""Sessions as rows of two tables, which `hsfiq.analysis.sessions` measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.sessions.record import Round, Session, has_simulated_texts
from hsfiq.text import count_text, first_few

# FISD's multi-round protocol (arXiv 2604.12904, section 3.2).
#
# Its rounds: the data set's reference and text; the mean of all queries so far; the first image of
# the list is the next candidate. It stops at a hit by its text, but its Recall (table 8) lies below
# its Hits (table 2), so that the sessions of its tables go on.

ROUNDS = 5
HISTORY = "mean"
CHOOSER = "top1"


def deviations(sessions: Iterable[Session]) -> Iterator[str]:
    """The differences of sessions from FISD's protocol, a line for each setting and value."""
    counts: dict[str, int] = {}
    for session in sessions:
        for text in differing(session):
            counts[text] = counts.get(text, 0) + 1
    for text, n in counts.items():
        yield f"not as FISD: {count_text(n, 'session')} with {text}"


def differing(session: Session) -> Iterator[str]:
    for name, value, expected in (
        ("history", session.history, HISTORY),
        ("chooser", session.chooser, CHOOSER),
        ("max_rounds", session.max_rounds, ROUNDS),
        ("stop_at", session.stop_at, None),
    ):
        if value != expected:
            yield f"{name} {value or 'unknown'} (FISD: {expected or 'none'})"


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
            "sessions",
            "they contain no session with a system",
            "play them first: hsfiq sessions play",
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
    """Notes on the sessions for readers of the figures."""
    notes = []
    if n_left_out:
        notes.append(
            f"{count_text(n_left_out, 'session')} left out (practice, or without a system)"
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


# People's sessions beside simulated ones of the same systems, for `hsfiq.analysis.sessions`.

SETTINGS: dict[str, Callable[[Session], object]] = {
    "history": lambda session: session.history,
    "chooser": lambda session: session.chooser,
    "rounds": lambda session: session.max_rounds,
    "images shown": lambda session: max((len(each.shown) for each in session.rounds), default=0),
    "corpus": lambda session: session.corpus.sha256 if session.corpus else None,
}
"""The settings that people and a simulator should share."""


class Sides(NamedTuple):
    """Rows like those of `Tables`; `sides` has the simulator and system of each name.

    The simulator is None for people.
    """

    sessions: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    sides: dict[str, tuple[str | None, str]]
    triplets: dict[str, str]
    notes: list[str]


def sides_of(people: Sequence[Session], simulated: Sequence[Session]) -> Sides:
    """The people's sessions, and the simulated ones of the systems that people searched with.

    A system is the same if its version is, unless several systems have it, or else if its name is,
    in upper or lower case.

    Raises:
        UnreadableInput: there are no sessions of people with a target, none has a list, or none of
            the simulated ones is of their systems.
    """
    people = [each for each in people if each.system and each.targets and not each.is_practice]
    if not people or any(each.participant is None for each in people):
        what = "holds no search of people for a target"
        raise UnreadableInput("--people", what, "name a release of kind search with targets")
    if not any(part.shown for each in people for part in each.rounds):
        what = "holds no list that people saw"
        raise UnreadableInput("--people", what, "name a release with lists")
    by_version = systems_by_version(people)
    by_name = {(each.system or "").casefold(): each.system for each in people}
    labels = simulator_labels(simulated)
    matched = [
        (label, system, each)
        for label, each in zip(labels, simulated, strict=True)
        if (system := by_version.get(each.system_version or "") or by_name.get(name_of(each)))
    ]
    if not matched:
        theirs = first_few(sorted({each.system or "" for each in people}))
        played = first_few(sorted({each.system or "no name" for each in simulated}))
        what = f"people searched with {theirs}, and the sessions are of {played}"
        raise UnreadableInput("--people", what, "play with the same systems")
    ours: list[tuple[str | None, str, Session]] = [*matched]
    sides = [(None, each.system or "", each) for each in people] + ours
    named = [(side_name(simulator, system), each) for simulator, system, each in sides]
    return Sides(
        [session_row(name, each) for name, each in named],
        [round_row(name, each, part) for name, each in named for part in each.rounds],
        {side_name(simulator, system): (simulator, system) for simulator, system, _ in sides},
        {each.query_id: split_query_id(each.query_id)[0] for _, each in named},
        list(notes_on_people(people, matched, len(simulated) - len(matched))),
    )


def systems_by_version(sessions: Sequence[Session]) -> dict[str, str | None]:
    """The system of each version that only one system has."""
    systems: dict[str, set[str | None]] = {}
    for each in sessions:
        if each.system_version:
            systems.setdefault(each.system_version, set()).add(each.system)
    return {version: name for version, (name, *others) in systems.items() if not others}


def name_of(session: Session) -> str:
    return (session.system or "").casefold()


def side_name(simulator: str | None, system: str) -> str:
    return f"{simulator or PEOPLE}: {system}"


def simulator_labels(sessions: Sequence[Session]) -> list[str]:
    """Each session's simulator, with the settings in which the sessions differ."""
    settings = [
        (
            each.history or "",
            each.chooser or "",
            "" if each.stop_at is None else f"stop at {each.stop_at}",
        )
        for each in sessions
    ]
    differs = [len(set(values)) > 1 for values in zip(*settings, strict=True)]
    return [
        ", ".join(
            [
                each.simulator or SCRIPT,
                *(value for value, shown in zip(own, differs, strict=True) if shown and value),
            ]
        )
        for each, own in zip(sessions, settings, strict=True)
    ]


def notes_on_people(
    people: Sequence[Session], matched: Sequence[tuple[str, str, Session]], n_left_out: int
) -> Iterator[str]:
    """What a reader must know about the comparison."""
    if any(map(has_simulated_texts, people)):
        yield "the people are simulated participants: nothing here says what people do"
    if n_left_out:
        yield f"{count_text(n_left_out, 'session')} of systems that people did not search with"
    queries = {each.query_id for each in people}
    for label in dict.fromkeys(label for label, *_ in matched):
        own = [each for name, _, each in matched if name == label]
        missing = queries - {each.query_id for each in own}
        if missing:
            yield f"{label}: {len(missing):,} of the people's {len(queries):,} queries not played"
        for name, value in SETTINGS.items():
            theirs, simulators = (
                max((value(each) for each in side), key=str) for side in (people, own)
            )
            if theirs != simulators:
                yield f"{label}: {name} {simulators}, people {theirs}"
        if all(each.stop_at is None for each in own):
            yield (
                f"{label}: goes on after a hit, people stop at one; Hits@K for K of the images "
                "shown or more can be compared, mean ranks of later rounds cannot"
            )
