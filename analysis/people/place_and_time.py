"""Scores and accuracy by place in the form and by the time an answer took.

If people tire or hurry, late and fast answers differ from the others: they give other scores, and
metrics agree with them less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.answers import has_preference, metric_difference, optional_column
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release, score_range
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.spread import RATE, Bounds
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.margin import equal_bins

NO_PAIR = "no pair has a preference and both values"


@dataclass(frozen=True)
class BinFigures(JsonRecord):
    """The mean score of both sets, and each metric's tie_half, of some answers."""

    mean_score: Estimate
    tie_half: Mapping[str, Estimate]


@dataclass(frozen=True)
class Bin(JsonRecord):
    """The `n` answers with a place or a time from `low` to `high`."""

    low: float
    high: float
    n: int
    figures: BinFigures


@dataclass(frozen=True)
class Trend(JsonRecord):
    """Up to five bins of about equally many answers, in increasing order.

    Attributes:
        change: the figures of the last bin minus those of the first, with paired intervals.
        n_unknown: how many answers have no place or time.
        reason: why there are no bins.
    """

    bins: tuple[Bin, ...]
    change: BinFigures | None
    n_unknown: int
    reason: str | None = None


@dataclass(frozen=True)
class PlaceAndTime(JsonRecord):
    """By the place in the form, from 1, and by the active seconds."""

    place: Trend
    seconds: Trend


def place_and_time(release: Release, values: MetricValues, bootstrap: Bootstrap) -> PlaceAndTime:
    """Describe the answers by place and by time; a trend is empty if these were not recorded."""
    place = optional_column(release.preferences, "place") + 1
    seconds = optional_column(release.preferences, "active_seconds")
    scale = score_range(release.points)
    return PlaceAndTime(
        place=trend(release.preferences, place, values, bootstrap, scale),
        seconds=trend(release.preferences, seconds, values, bootstrap, scale),
    )


def trend(
    preferences: pd.DataFrame,
    by: pd.Series[float],
    values: MetricValues,
    bootstrap: Bootstrap,
    scale: Bounds,
) -> Trend:
    """Describe the answers by a number of each, (n_questions,), NaN where it is unknown.

    `scale` has the lowest and the highest score.
    """
    known = by.notna().to_numpy()
    rows, number = preferences[known], np.asarray(by[known], dtype=np.float64)
    n_unknown = int((~known).sum())
    if not len(rows):
        return Trend((), None, n_unknown, "not recorded")
    bin_of = equal_bins(number)
    codes = np.unique(bin_of)
    terms = _terms(rows, values)
    by_figure = {
        name: _by_bin(rows, hits, counted, bin_of, bootstrap, RATE if name else scale)
        for name, (hits, counted) in terms.items()
    }
    figures = [
        _figures({name: estimates[place] for name, estimates in by_figure.items()})
        for place in range(len(codes) + 1)
    ]
    bins = tuple(
        Bin(
            float(number[bin_of == code].min()),
            float(number[bin_of == code].max()),
            int((bin_of == code).sum()),
            figures[place],
        )
        for place, code in enumerate(codes)
    )
    return Trend(bins, figures[-1], n_unknown)


def _terms(rows: pd.DataFrame, values: MetricValues) -> dict[str, tuple[FloatArray, FloatArray]]:
    """What each answer adds to each figure's numerator and denominator, (n,) each."""
    scores = ((rows["score_1"] + rows["score_2"]) / 2).to_numpy(np.float64)
    terms = {"": (scores, np.ones(len(rows)))}
    decided = has_preference(rows).to_numpy()
    set_1 = (rows["preferred"] == 1).to_numpy()
    for name, own in values.items():
        difference = np.asarray(metric_difference(rows, own), dtype=np.float64)
        counted = decided & ~np.isnan(difference)
        rate = preference.tie_half(np.nan_to_num(difference), set_1)
        terms[name] = (rate.hits * counted, counted.astype(np.float64))
    return terms


def _by_bin(
    rows: pd.DataFrame,
    hits: FloatArray,
    counted: FloatArray,
    bin_of: NDArray[np.int64],
    bootstrap: Bootstrap,
    bounds: Bounds,
) -> list[Estimate]:
    """A figure in each bin, then the last minus the first."""
    inside = (bin_of[:, None] == np.unique(bin_of)).astype(np.float64)
    numerators, denominators = inside * hits[:, None], inside * counted[:, None]
    resampled = bootstrap.ratios(rows, numerators, denominators)
    n = denominators.sum(axis=0).astype(int)
    with np.errstate(invalid="ignore"):
        observed = numerators.sum(axis=0) / n
    estimates = []
    for place, size in enumerate(n.tolist()):
        if size == 0:
            estimates.append(Estimate(UNDEFINED, 0, None, NO_PAIR))
            continue
        ci = bootstrap.interval(resampled[:, place], rows, denominators[:, place] > 0, bounds)
        estimates.append(Estimate(float(observed[place]), size, ci))
    difference = float(observed[-1] - observed[0])
    if len(n) == 1 or np.isnan(difference):
        reason = "there is only one bin" if len(n) == 1 else NO_PAIR
        return [*estimates, Estimate(UNDEFINED, int(counted.sum()), None, reason)]
    change = resampled[:, -1] - resampled[:, 0]
    return [*estimates, Estimate(difference, int(n[0] + n[-1]), bootstrap.interval(change, rows))]


def _figures(by_name: Mapping[str, Estimate]) -> BinFigures:
    return BinFigures(by_name[""], {name: each for name, each in by_name.items() if name})
