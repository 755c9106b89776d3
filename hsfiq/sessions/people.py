"""People's sessions beside simulated ones of the same systems, for `hsfiq.analysis.sessions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hsfiq.errors import UnreadableInput
from hsfiq.ids import split_query_id
from hsfiq.sessions.record import Session, has_simulated_texts
from hsfiq.sessions.tables import PEOPLE, SCRIPT, round_row, session_row
from hsfiq.text import count_text, first_few

SETTINGS: dict[str, Callable[[Session], object]] = {
    "history": lambda session: session.history,
    "chooser": lambda session: session.chooser,
    "rounds": lambda session: session.max_rounds,
    "images shown": lambda session: max((len(each.shown) for each in session.rounds), default=0),
    "corpus": lambda session: session.corpus.sha256 if session.corpus else None,
}
"""What people and a simulator should have in common."""


class Sides(NamedTuple):
    """Rows as those of `hsfiq.sessions.tables`; `sides` has the simulator and system of each name.

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
        list(notes_on(people, matched, len(simulated) - len(matched))),
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


def notes_on(
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
