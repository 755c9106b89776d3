"""Which of two systems people prefer, tested sequentially while the study runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord
from hsfiq.analysis.resampling.intervals import LEVEL
from hsfiq.answer_rules import error_of_study
from hsfiq.errors import UnreadableInput

# A confidence sequence for a mean of values in [0, 1]: valid at every look, and at any stop.
#
# To test a mean m, bet on each new value x: a share b of the capital pays x / m, the rest pays (1 -
# x) / (1 - m). If m is the mean that each value has given all earlier ones, the capital is a
# martingale that starts at 1, so with a probability of at most alpha it ever reaches 1 / alpha
# (Ville's inequality). The sequence after n values holds every m against which it has not been
# reached so far (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by
# betting"). The capital is spread in equal parts over fixed shares b, the nodes of Chebyshev, which
# is a universal portfolio (Cover 1991; Orabona and Jun 2024): it needs no guess of the variance,
# and since each b is fixed, no quadrature error touches its validity.
#
# The capital is log-convex in m, so the sequence consists of intervals. They are found on a grid
# and rounded outwards.

GRID = 400
"""The ends of intervals are multiples of 1 / GRID."""
NODES = 40
SHARES = (1 + np.cos((2 * np.arange(1, NODES + 1) - 1) * np.pi / (2 * NODES))) / 2
"""The shares of the capital that are bet, (b,), within (0, 1)."""

BLOCK = 2**20
"""How many gains are computed at once: 8 MB."""


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """The intervals after 0, 1, ..., n values.

    Attributes:
        low, high: (n + 1,); an interval is within all earlier ones. Both are NaN from where no
            mean is left, which says that the mean has not stayed the same.
    """

    level: float
    low: FloatArray
    high: FloatArray


def log_capital(
    values: FloatArray, means: FloatArray, before: FloatArray | None = None
) -> FloatArray:
    """The log of the capital after each of (n,) values, from bets against (m,) means: (m, n).

    Values are in [0, 1], means within (0, 1). `before`, (b, m), is what the bets had gained before
    these values; it is updated to the gains after these values.
    """
    gained = np.zeros((NODES, len(means))) if before is None else before
    up, down = values / means[:, None], (1 - values) / (1 - means[:, None])  # (m, n)
    gains = np.empty((NODES, *up.shape))
    for gain, share, own in zip(gains, SHARES, gained, strict=True):
        np.log(share * up + (1 - share) * down, out=gain)
        gain[:, :1] += own[:, None]
        np.cumsum(gain, axis=1, out=gain)
    if len(values):
        gained[:] = gains[:, :, -1]
    highest = gains.max(axis=0)
    gains -= highest
    return np.asarray(highest + np.log(np.exp(gains, out=gains).mean(axis=0)))


def confidence_sequence(values: FloatArray, level: float = LEVEL) -> ConfidenceSequence:
    """The sequence for the mean of (n,) values, in the order in which they became known.

    A mean that was excluded once stays excluded, so its capital is not followed any further: most
    means are excluded early, and memory does not grow with the number of values.

    UnreadableInput: a value is not in [0, 1].
    """
    require_shares(values)
    low, high = np.zeros(len(values) + 1), np.ones(len(values) + 1)
    steps, gained = np.arange(1, GRID), np.zeros((NODES, GRID - 1))
    number = 0
    while number < len(values) and len(steps):
        block = values[number : number + max(1, BLOCK // gained.size)]
        reached = log_capital(block, steps / GRID, gained) >= -log(1 - level)
        kept = ~np.logical_or.accumulate(reached, axis=1)  # (m, n)
        here = slice(number + 1, number + 1 + len(block))
        # The true ends are between the outermost kept means and their rejected neighbours.
        low[here] = (steps[kept.argmax(axis=0)] - 1) / GRID
        high[here] = (steps[len(steps) - 1 - kept[::-1].argmax(axis=0)] + 1) / GRID
        is_empty = ~kept.any(axis=0)
        low[here][is_empty] = high[here][is_empty] = np.nan
        steps, gained = steps[kept[:, -1]], gained[:, kept[:, -1]]
        number += len(block)
    low[number + 1 :] = high[number + 1 :] = np.nan
    return ConfidenceSequence(level, low, high)


def looks_until_excluded(values: FloatArray, mean: float, level: float = LEVEL) -> int | None:
    """After how many of (n,) values the sequence first excludes a mean; None if never.

    Exact, not on the grid.
    """
    require_shares(values)
    gained = np.zeros((NODES, 1))
    for number in range(0, len(values), BLOCK // NODES):
        block = values[number : number + BLOCK // NODES]
        reached = log_capital(block, np.array([mean]), gained)[0] >= -log(1 - level)
        if reached.any():
            return number + int(reached.argmax()) + 1
    return None


def require_shares(values: FloatArray) -> None:
    if not ((values >= 0) & (values <= 1)).all():
        raise UnreadableInput("sequence", "a value is not between 0 and 1")


# Which of two systems people prefer, tested sequentially while the study runs.
#
# The unit is the participant: one person's answers depend on each other. Each counts with the share
# of their questions about the two systems in which they preferred the first, ties as half, however
# many these questions are, and once they have finished.

EQUAL = 0.5
NOBODY = "no participant who has finished was asked about both"
DRIFT = "no rate fits all participants: preferences changed during the study"


@dataclass(frozen=True)
class WatchedPreference(JsonRecord):
    """The rate at which people prefer a system to another, with its confidence sequence.

    Attributes:
        rate: the mean of the participants' own shares.
        n_answers: the answers of these participants about the two systems.
        level: of this sequence; the sequences of all pairs of systems, and of all studies that
            compare them, hold simultaneously at `LEVEL`.
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
    shares: Mapping[tuple[str, str], Sequence[tuple[float, int]]], n_earlier: int = 0
) -> list[WatchedPreference]:
    """Compute the sequences of all pairs of systems that a study compares.

    Args:
        shares: by the two systems, the share that prefers the first and the number of answers of
            each participant, in the order in which they finished. A pair without answers counts
            among the pairs, too (Bonferroni): whichever pairs an owner decides on, the error of all
            decisions together is at most that of the study.
        n_earlier: how many studies have compared these systems before.
    """
    level = 1 - error_of_study(n_earlier) / max(1, len(shares))
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
