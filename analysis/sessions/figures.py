"""Figures of each round: means over sessions with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from hsfiq.analysis.resampling.intervals import RATE, SATISFACTION, Bounds
from hsfiq.analysis.sessions.ranks import RankRange, Rules, SystemSessions
from hsfiq.text import count_text

UNKNOWN = "the rank of {sessions} is not recorded"
ONE_ROUND = "needs two rounds or more"
NO_VALUE = "no value to average"
NO_TARGET = "no session has a target"


@dataclass(frozen=True, eq=False)
class Values:
    """What sessions contribute to the figures of T rounds.

    Attributes:
        values: (S, T).
        included: (S, T), whether a session counts.
        known: (S, T), where the value is known; an included value that is not makes the figure of
            its round undefined.
        bounds: the range of the values, if they have one.
        is_median: whether sessions' median is the figure, not their mean.
        reason: why no session is included, where that is so.
    """

    values: FloatArray
    included: BoolArray
    known: BoolArray
    bounds: Bounds | None = None
    is_median: bool = False
    reason: str = NO_VALUE

    def why_undefined(self, number: int) -> str | None:
        """Why the figure of a round, from 0, is undefined; None if it is defined."""
        included = self.included[:, number]
        if not included.any():
            return self.reason
        n_unknown = int((included & ~self.known[:, number]).sum())
        return UNKNOWN.format(sessions=count_text(n_unknown, "session")) if n_unknown else None


def rank_figures(system: SystemSessions, rules: Rules) -> dict[str, Values]:
    """The values averaged by the figures of ranks, by their names in JSON."""
    current, best = system.current(rules.after_stop), system.best()
    figures = {}
    for k in rules.ks:
        figures[f"hits@{k}"] = share_within(best, k)
    for k in rules.ks:
        figures[f"recall@{k}"] = share_within(current, k)
    for name, ranks in (("current", current), ("best", best)):
        parts = (np.where(ranks.is_known, ranks.low, 1), ranks.is_included, ranks.is_known)
        figures[f"mean_rank_{name}"] = Values(*parts)
        figures[f"median_rank_{name}"] = Values(*parts, is_median=True)
        figures[f"mean_log_rank_{name}"] = Values(np.log(parts[0]), *parts[1:])
    figures["bri"] = best_log_rank_integral(best)
    if not system.sessions["has_target"].any():
        return {name: replace(values, reason=NO_TARGET) for name, values in figures.items()}
    return figures


def share_within(ranks: RankRange, k: int) -> Values:
    values, known = ranks.within(k)
    return Values(values, ranks.is_included, known, RATE)


def best_log_rank_integral(best: RankRange) -> Values:
    """BRI of each session (PlugIR, ACL 2024): the mean of ln b over the rounds, trapezoidal."""
    log_rank = np.log(np.where(best.is_known, best.low, 1))
    included = best.is_included[:, :1]
    known: BoolArray = np.logical_and.reduce(best.is_known, axis=1, keepdims=True)
    if log_rank.shape[1] == 1:
        return Values(log_rank, np.zeros_like(included), known, reason=ONE_ROUND)
    between = (log_rank[:, 1:] + log_rank[:, :-1]) / 2
    return Values(between.mean(axis=1, keepdims=True), included, known)


def estimates_of(
    rows: pd.DataFrame, figures: dict[str, Values], bootstrap: Bootstrap
) -> dict[str, tuple[Estimate, ...]]:
    """The estimate of each round, with an interval."""
    statistics = statistics_of(rows, figures, bootstrap)
    return {
        name: tuple(
            estimate_of(rows, values, number, statistics[name][:, number], bootstrap)
            for number in range(values.values.shape[1])
        )
        for name, values in figures.items()
    }


def statistics_of(
    rows: pd.DataFrame, figures: dict[str, Values], bootstrap: Bootstrap
) -> dict[str, FloatArray]:
    """Each figure of the sessions and of their resamples, (length, T); unknown values count."""
    means = {name: values for name, values in figures.items() if not values.is_median}
    counted = [np.where(values.included, values.values, 0) for values in means.values()]
    resampled = bootstrap.ratios(
        rows, np.hstack(counted), np.hstack([values.included for values in means.values()])
    )
    ends = np.cumsum([values.shape[1] for values in counted])
    statistics = dict(zip(means, np.split(resampled, ends[:-1], axis=1), strict=True))
    medians = {name: values for name, values in figures.items() if values.is_median}
    return statistics | resampled_medians(rows, medians, bootstrap)


def estimate_of(
    rows: pd.DataFrame, values: Values, number: int, statistics: FloatArray, bootstrap: Bootstrap
) -> Estimate:
    """The estimate of one round, from its resamples, (length,)."""
    included = values.included[:, number]
    reason = values.why_undefined(number)
    if reason is not None:
        return Estimate(UNDEFINED, int((included & values.known[:, number]).sum()), None, reason)
    interval = bootstrap.interval(statistics, rows, included, values.bounds)
    return Estimate(float(statistics[0]), int(included.sum()), interval)


def resampled_medians(
    rows: pd.DataFrame, figures: dict[str, Values], bootstrap: Bootstrap
) -> dict[str, FloatArray]:
    """The medians of each round, (length, T)."""
    columns = [
        (values.values[:, number], values.included[:, number])
        for values in figures.values()
        for number in range(values.values.shape[1])
    ]
    if not columns:
        return {}
    blocks = [
        np.stack([weighted_medians(*column, weights) for column in columns], axis=1)
        for weights in bootstrap.weights(rows)
    ]
    ends = np.cumsum([values.values.shape[1] for values in figures.values()])
    parts: Sequence[FloatArray] = np.split(np.concatenate(blocks), ends[:-1], axis=1)
    return dict(zip(figures, parts, strict=True))


def weighted_medians(values: FloatArray, included: BoolArray, weights: FloatArray) -> FloatArray:
    """The median of the included of (S,) values, each counted as often as (b, S) weights say.

    Of an even number of values it is the mean of the middle two; NaN for none.
    """
    chosen = np.flatnonzero(included)
    order = chosen[np.argsort(values[chosen], kind="stable")]
    if not len(order):
        return np.full(len(weights), np.nan)
    up_to = np.cumsum(weights[:, order], axis=1)  # how many values come up to each one
    total = up_to[:, -1]
    sorted_values = values[order]
    lower = sorted_values[np.minimum((up_to < (total / 2)[:, None]).sum(axis=1), len(order) - 1)]
    upper = sorted_values[np.minimum((up_to <= (total / 2)[:, None]).sum(axis=1), len(order) - 1)]
    return np.where(total > 0, (lower + upper) / 2, np.nan)


# What simulators, people and systems do in sessions, besides the targets' ranks.


def conduct_figures(system: SystemSessions, k: int) -> dict[str, Values]:
    """The values averaged by the figures of conduct; a session without success has no rank up to k.

    `words`, `seconds` and `satisfaction` are those of each round; the others of a session.
    """
    repeated, has_references = repeats(system)
    unsolved = ~system.best().within(k)[0][:, -1].astype(bool)
    said_again = np.nansum(system.by_round("is_repeated_text"), axis=1) > 0
    figures = {
        "repeats": of_sessions(repeated, has_references),
        f"repeats_without_hit@{k}": of_sessions(repeated, has_references & unsolved),
        "repeated_texts": of_sessions(said_again, np.ones_like(said_again)),
        "words": of_rounds(system.by_round("words")),
    }
    for name, bounds in (("seconds", None), ("satisfaction", SATISFACTION)):
        values = system.by_round(name)
        if not np.isnan(values).all():
            figures[name] = of_rounds(values, bounds)
    return figures


def repeats(system: SystemSessions) -> tuple[BoolArray, BoolArray]:
    """Whether each session asks about an image again, and whether it has references at all."""
    references = system.rounds.dropna(subset=["reference"])
    counts = references.groupby("session_id")["reference"].agg(["size", "nunique"])
    size, distinct = (
        counts[name].reindex(system.sessions["session_id"], fill_value=0).to_numpy()
        for name in ("size", "nunique")
    )
    return distinct < size, size > 0


def of_sessions(values: BoolArray, included: BoolArray) -> Values:
    column = values.astype(np.float64)[:, None]
    return Values(column, included[:, None], np.ones_like(column, dtype=np.bool_), RATE)


def of_rounds(values: FloatArray, bounds: tuple[float, float] | None = None) -> Values:
    included = ~np.isnan(values)
    return Values(np.nan_to_num(values), included, included, bounds)


def stop_reasons(sessions: pd.DataFrame) -> dict[str, int]:
    """How many sessions ended for each reason, most first."""
    counts = sessions["stop_reason"].fillna("unknown").value_counts()
    return {str(reason): int(n) for reason, n in counts.items()}


# Rounds to success: Kaplan and Meier's estimate, in which a session without success is censored.
#
# A session succeeds in the first round with the target among the first K. One that ends without is
# censored after its last round: it might have succeeded later.


@dataclass(frozen=True)
class RoundsToSuccess(JsonRecord):
    """When sessions succeed.

    Attributes:
        success: the probability to have succeeded by each round.
        mean: the expected number of rounds, where a search ends after the last one.
        median: the first round by which half have succeeded.
        n_events: the sessions that succeed.
        n_censored: sessions that end without it.
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

    If no session is left, the share stays constant.
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
