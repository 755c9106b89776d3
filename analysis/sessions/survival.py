"""Rounds to success: Kaplan and Meier's estimate, in which a session without success is censored.

A session succeeds in the first round with the target among the first K. One that ends without is
censored after its last round: it might have succeeded later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import RATE
from hsfiq.analysis.sessions.figures import NO_TARGET, UNKNOWN
from hsfiq.analysis.sessions.ranks import RankRange


@dataclass(frozen=True)
class RoundsToSuccess(JsonRecord):
    """When sessions succeed.

    Attributes:
        success: the probability to have succeeded by each round.
        mean: the expected number of rounds, where a search ends after the last one.
        median: the first round by which half have succeeded.
        n_events: the sessions that succeed.
        n_censored: those that end without.
    """

    success: tuple[Estimate, ...]
    mean: Estimate
    median: Estimate
    n_events: int
    n_censored: int


def rounds_to_success(
    rows: pd.DataFrame, played: RankRange, k: int, bootstrap: Bootstrap
) -> RoundsToSuccess:
    """Estimate when the sessions (S, T) have the target among the first k."""
    included = played.is_included[:, 0]
    events, at_risk = events_of(played, k)
    n, n_events = int(included.sum()), int(events.sum())
    survival = survival_of(bootstrap.ratios(rows, events, at_risk))
    bounds = (0.0, float(events.shape[1]))
    unknown = unknown_sessions(played, k)
    reason = UNKNOWN.format(sessions=count_text(unknown, "session")) if unknown else NO_TARGET
    if unknown or not n:
        undefined = Estimate(UNDEFINED, n - unknown, None, reason)
        rounds = tuple(undefined for _ in range(events.shape[1]))
        return RoundsToSuccess(rounds, undefined, undefined, n_events, n - n_events)
    success = tuple(
        Estimate(float(each[0]), n, bootstrap.interval(each, rows, included, RATE))
        for each in (1 - survival[:, 1:]).T
    )
    means = survival[:, :-1].sum(axis=1)
    return RoundsToSuccess(
        success,
        Estimate(float(means[0]), n, bootstrap.interval(means, rows, included, bounds)),
        median_of(survival[0], n),
        n_events,
        n - n_events,
    )


def events_of(played: RankRange, k: int) -> tuple[FloatArray, FloatArray]:
    """Which session succeeds in which round, and which could, each (S, T)."""
    within = played.within(k)[0]
    before = np.cumsum(within, axis=1) - within
    at_risk = (played.is_included & (before == 0)).astype(np.float64)
    return within * at_risk, at_risk


def survival_of(hazards: FloatArray) -> FloatArray:
    """The share without success before the first and after each round: (b, T) -> (b, T + 1).

    Where no session is left, nothing changes.
    """
    survival = np.ones((len(hazards), hazards.shape[1] + 1))
    np.cumprod(1 - np.nan_to_num(hazards), axis=1, out=survival[:, 1:])
    return survival


def unknown_sessions(played: RankRange, k: int) -> int:
    """In how many sessions a rank that decides about success is unknown."""
    _, known = played.within(k)
    _, at_risk = events_of(played, k)
    return int((~known & (at_risk > 0)).any(axis=1).sum())


def median_of(survival: FloatArray, n: int) -> Estimate:
    """The first round after which at most half are without success, (T + 1,)."""
    reached = np.flatnonzero(survival <= 1 / 2)
    if len(reached):
        return Estimate(float(reached[0]), n)
    share = f"{1 - survival[-1]:.0%} of the searches succeed within {len(survival) - 1} rounds"
    return Estimate(UNDEFINED, n, None, share)
