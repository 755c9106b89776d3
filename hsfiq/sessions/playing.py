"""Playing all queries of a benchmark's parts, in batches that survive a stop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.live.protocol import Ranker
from hsfiq.sessions.play import Query, Settings, User, play, require_candidates
from hsfiq.sessions.record import Session
from hsfiq.sessions.unfinished import Unfinished

Track = Callable[
    [Sequence[tuple["Part", Sequence[Query]]]], Iterable[tuple["Part", Sequence[Query]]]
]


@dataclass(frozen=True, slots=True)
class Part:
    """Queries that are searched in one corpus."""

    ranker: Ranker
    queries: tuple[Query, ...]


def play_parts(
    parts: Sequence[Part], user: User, settings: Settings, out: Path, track: Track
) -> tuple[Session, ...]:
    """Play every query and write the sessions; `track` iterates over batches.

    Raises:
        UnreadableInput: a query cannot be played, the system does not know the history, or the
            output exists or belongs to another play.
    """
    ids = [settings.session_id(query) for part in parts for query in part.queries]
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise UnreadableInput("--data", f"session {twice!r} would be played twice")
    for part in parts:
        require_candidates(part.ranker, part.queries)
        require_history(part.ranker, settings)
    unfinished = Unfinished.open(out, identity(parts, user, settings))
    batches = [
        (part, part.queries[start : start + settings.batch])
        for part in parts
        for start in range(0, len(part.queries), settings.batch)
    ]
    for part, queries in track(batches):
        if not all(settings.session_id(query) in unfinished.done for query in queries):
            unfinished.add(play(part.ranker, queries, user, settings))
    return unfinished.finish(ids)


def require_history(ranker: Ranker, settings: Settings) -> None:
    system = ranker.system()
    if settings.history not in system.histories:
        raise UnreadableInput(
            "--history",
            f"{system.name} does not know {settings.history}",
            f"use {', '.join(system.histories)}",
        )


def identity(parts: Sequence[Part], user: User, settings: Settings) -> dict[str, Any]:
    """What a play is: one with another identity cannot go on with its sessions."""
    systems = [part.ranker.system() for part in parts]
    queries = json.dumps([asdict(query) for part in parts for query in part.queries])
    return {
        "system": [[each.name, each.version, each.corpus.sha256] for each in systems],
        "queries": sha256(queries.encode()).hexdigest(),
        "simulator": [user.simulator, user.version],
        "chooser": user.chooser,
        **asdict(settings),
    }


def summary(sessions: Sequence[Session]) -> dict[str, Any]:
    """What was played, for the command's output."""
    first = sessions[0]
    stops = Counter(each.stop.reason for each in sessions if each.stop is not None)
    return {
        "n_sessions": len(sessions),
        "n_rounds": sum(len(each.rounds) for each in sessions),
        "system": first.system,
        "simulator": first.simulator,
        "history": first.history,
        "chooser": first.chooser,
        "stops": dict(stops.most_common()),
    }
