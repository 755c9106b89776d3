"""FISD's multi-round protocol (arXiv 2604.12904, section 3.2).

Its rounds: the data set's reference and text; the mean of all queries so far; the first image of
the list is the next candidate. It stops at a hit by its text, but its Recall (table 8) lies below
its Hits (table 2), so that the sessions of its tables go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hsfiq.sessions.record import Session
from hsfiq.text import count_text

ROUNDS = 5
HISTORY = "mean"
CHOOSER = "top1"


def deviations(sessions: Iterable[Session]) -> Iterator[str]:
    """How sessions were played otherwise, a line for each setting and value."""
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
