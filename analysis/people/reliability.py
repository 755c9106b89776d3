"""Reliability of scores: the share of their variance that is due to what was scored.

Raters differ from set to set, so the model is the one-way random one: ICC(1) of a single rating and
ICC(1,n) of the mean of n raters (Shrout and Fleiss 1979). Sets themselves explain no more of the
variance than this share, so no metric of sets correlates with the scores more than its square root:
the attenuation bound (Spearman 1904).

The interval is that of `two_way` on ln(MSB / MSW).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import exp, isnan, sqrt

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.people.agreement import MIN_UNITS, few_units, shared_ratings
from hsfiq.analysis.people.two_way import at_ends, two_way_interval
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.resampling.interval import ConfidenceInterval

N_RATERS = (1, 2, 3, 4, 5)
NO_VARIANCE = "all scores are the same"


@dataclass(frozen=True)
class MeanOfRaters(JsonRecord):
    """The mean score of so many raters.

    Attributes:
        reliability: ICC(1,n), by Spearman and Brown from ICC(1).
        bound: its square root, the highest possible correlation of a metric with the mean.
    """

    n_raters: int
    reliability: Estimate
    bound: Estimate


@dataclass(frozen=True)
class Reliability(JsonRecord):
    """How reliable scores are; n counts the ratings of units that two or more people judged.

    Attributes:
        means: for 1 to 5 raters; the first is ICC(1) of a single rating.
        rho_bound: the highest possible rho of a metric with the scores of single raters: the square
            root of ICC(1) of the mid-ranks, which rho is computed from.
    """

    means: tuple[MeanOfRaters, ...]
    rho_bound: Estimate

    @property
    def single(self) -> Estimate:
        return self.means[0].reliability


def reliability(ratings: pd.DataFrame) -> Reliability:
    """Measure the reliability of ratings, arranged as for `agreement`.

    All figures are NaN, with a reason, with fewer than `MIN_UNITS` units that two people judged, or
    if all ratings are the same.
    """
    table = shared_ratings(ratings)
    n_units = table["unit"].nunique()
    if n_units < MIN_UNITS:
        single = Estimate(UNDEFINED, len(table), None, few_units(n_units))
    else:
        single = icc1(table)
    means = []
    for n in N_RATERS:
        of_mean = mapped(single, partial(spearman_brown, n_raters=n))
        means.append(MeanOfRaters(n, of_mean, mapped(of_mean, attenuation_bound)))
    by_ranks = single if isnan(single.value) else icc1(table.assign(value=table["value"].rank()))
    return Reliability(tuple(means), mapped(by_ranks, attenuation_bound))


def icc1(table: pd.DataFrame) -> Estimate:
    """ICC(1) by one-way analysis of variance, for units with any numbers of raters from two.

    r = (MSB - MSW) / (MSB + (k - 1) MSW), with k = (N - sum k_i^2 / N) / (units - 1).
    The rows of `table` are as for `agreement`, one for each rater of a unit.
    """
    terms = unit_terms(table)
    k, between, within = mean_squares(terms.sum(axis=0)[None])[:, 0]
    spread = between + (k - 1) * within
    if not spread > 1e-12:
        return Estimate(UNDEFINED, len(table), None, NO_VARIANCE)
    return Estimate(float((between - within) / spread), len(table), _interval(table, terms))


def mean_squares(sums: FloatArray) -> FloatArray:
    """The k, MSB and MSW of several samples, (3, n), from (n, 6) sums of their units.

    The sums are the numbers of units and ratings, the sums of k_i^2, of the values, of their
    squares, and of (sum of a unit's values)^2 / k_i.
    """
    units, n, squared_sizes, total, squares, by_unit = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        k = (n - squared_sizes / n) / (units - 1)
        between = (by_unit - total**2 / n) / (units - 1)
        within = np.maximum(squares - by_unit, 0.0) / (n - units)
    return np.stack([k, between, within])


def spearman_brown(single: float, n_raters: int) -> float:
    """The reliability of the mean of n raters: n r / (1 + (n - 1) r); as r if r is not positive."""
    return n_raters * single / (1 + (n_raters - 1) * single) if single > 0 else single


def attenuation_bound(reliability: float) -> float:
    """The square root; 0 for a negative reliability."""
    return sqrt(max(reliability, 0.0))


def mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """An increasing function of an estimate, and of the ends of its interval."""
    ci = estimate.ci if estimate.ci is None else at_ends(estimate.ci, function)
    value = estimate.value if isnan(estimate.value) else function(estimate.value)
    return replace(estimate, value=value, ci=ci)


def unit_terms(table: pd.DataFrame) -> FloatArray:
    """What each unit adds to the sums of `mean_squares`, (n_units, 6); values are standardised."""
    values = table["value"].to_numpy(np.float64)
    values = (values - values.mean()) / (values.std() or 1.0)
    unit = pd.factorize(table["unit"])[0]
    sizes = np.bincount(unit).astype(np.float64)
    sums, squares = np.bincount(unit, values), np.bincount(unit, values**2)
    return np.stack([np.ones_like(sizes), sizes, sizes**2, sums, squares, sums**2 / sizes], axis=1)


def _interval(table: pd.DataFrame, terms: FloatArray) -> ConfidenceInterval:
    total = terms.sum(axis=0)
    (log_ratio,) = log_mean_squares(total[None])
    interval = two_way_interval(table, float(log_ratio), log_mean_squares(total - terms))
    k = mean_squares(total[None])[0, 0]
    return at_ends(interval, lambda end: (exp(end) - 1) / (exp(end) + k - 1))


def log_mean_squares(sums: FloatArray) -> FloatArray:
    """ln(MSB / MSW) of each sample, (n, 6) -> (n,)."""
    _, between, within = mean_squares(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.log(between) - np.log(within))
