"""Which of two systems people prefer, watched while the study runs.

The unit is the participant: one person's answers depend on each other. Each counts with the share
of their questions about the two systems in which they preferred the first, ties as half, however
many these questions are, and once they have finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.spread import LEVEL
from hsfiq.analysis.sequential.confidence_sequence import confidence_sequence, looks_until_excluded

EQUAL = 0.5
NOBODY = "nobody who has finished was asked about both"
DRIFT = "no rate fits all participants: preferences changed while the study ran"


@dataclass(frozen=True)
class WatchedPreference(JsonRecord):
    """The rate at which people prefer a system to another, with its confidence sequence.

    Attributes:
        rate: the mean of the participants' own shares.
        n_answers: the answers of these participants about the two systems.
        level: of this sequence; the sequences of all pairs of systems hold together at `LEVEL`.
        low, high: the ends after each participant; NaN if `reason` is that no rate fits.
        decided_after: the number of participants after which it first excluded one half.
        preferred: the system that was preferred then; None while undecided.
    """

    system: str
    other: str
    rate: float
    n_participants: int
    n_answers: int
    level: float
    low: tuple[float, ...]
    high: tuple[float, ...]
    decided_after: int | None
    preferred: str | None
    reason: str | None = None


def watch_preferences(
    shares: Mapping[tuple[str, str], Sequence[tuple[float, int]]],
) -> list[WatchedPreference]:
    """Compute the sequences of all pairs of systems that a study compares.

    Args:
        shares: by the two systems, the share that prefers the first and the number of answers of
            each participant, in the order in which they finished. A pair that nobody has answered
            yet counts among the pairs too (Bonferroni): whatever it is that an owner decides on,
            the error of all decisions together is at most 1 - `LEVEL`.
    """
    level = 1 - (1 - LEVEL) / max(1, len(shares))
    return [_watch(*systems, own, level) for systems, own in shares.items()]


def _watch(
    system: str, other: str, shares: Sequence[tuple[float, int]], level: float
) -> WatchedPreference:
    values = np.array([share for share, _ in shares], dtype=np.float64)
    sequence = confidence_sequence(values, level)
    decided_after = looks_until_excluded(values, EQUAL, level)
    preferred = None
    if decided_after is not None:
        preferred = system if values[:decided_after].mean() > EQUAL else other
    reason = None if shares else NOBODY
    if np.isnan(sequence.low[-1]):
        reason = DRIFT
    return WatchedPreference(
        system=system,
        other=other,
        rate=float(values.mean()) if shares else UNDEFINED,
        n_participants=len(shares),
        n_answers=sum(n for _, n in shares),
        level=level,
        low=tuple(sequence.low[1:].tolist()),
        high=tuple(sequence.high[1:].tolist()),
        decided_after=decided_after,
        preferred=preferred,
        reason=reason,
    )
