"""The interval of a figure of agreement, whose ratings depend on each other in two ways.

What was found on two units is dependent if they share a triplet or an annotator. So the interval
counts the influences of such units together (as Aronow, Samii and Assenova 2015 do for pairs of
people), with Student's t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite, isnan, sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED
from hsfiq.analysis.resampling.bootstrap import indicator_matrix
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import LEVEL

FEWEST_CLUSTERS = 3
BLOCK_SIZE = 1000  # rows whose neighbours are held in memory at once
METHOD = "two-way cluster-robust"


def two_way_interval(
    table: pd.DataFrame, whole: float, without_each: FloatArray
) -> ConfidenceInterval:
    """The interval of a figure on a scale without bounds; its ends are NaN, with a reason, if not.

    Args:
        table: the ratings, one for each rater of a `unit`, with its `rater` and `cluster`.
        whole: the figure.
        without_each: (n_units,) the figure without each unit, in the order in which they occur.
    """
    n_clusters = int(min(table[name].nunique() for name in ("cluster", "rater")))
    low = high = UNDEFINED
    reason = None
    if n_clusters < FEWEST_CLUSTERS:
        reason = f"an interval needs {FEWEST_CLUSTERS} triplets and participants"
    elif not isfinite(whole):
        reason = "annotators of the same set agree completely, so the spread is unknown"
    elif not np.isfinite(without_each).all():
        reason = "annotators agree or disagree on one set only, so the spread is unknown"
    else:
        variance = two_way_variance(table, whole - without_each) * n_clusters / (n_clusters - 1)
        margin = float(stats.t.ppf((1 + LEVEL) / 2, n_clusters - 1)) * sqrt(variance)
        low, high = whole - margin, whole + margin
    return ConfidenceInterval(
        low=low,
        high=high,
        level=LEVEL,
        method=METHOD,
        unit="participant x triplet",
        n_clusters=n_clusters,
        n_resamples=0,
        n_undefined=0,
        seed=0,
        reason=reason,
    )


def at_ends(interval: ConfidenceInterval, function: Callable[[float], float]) -> ConfidenceInterval:
    """The interval of an increasing function of the figure."""
    if isnan(interval.low):
        return interval
    return replace(interval, low=float(function(interval.low)), high=float(function(interval.high)))


def two_way_variance(table: pd.DataFrame, influences: FloatArray) -> float:
    """The sum of u_i u_j over all pairs of units that share a triplet or a rater.

    Args:
        table: as for `two_way_interval`.
        influences: (n_units,) u, of the units in the order in which they first occur.
    """
    unit = pd.factorize(table["unit"])[0]
    first = ~pd.Series(unit).duplicated().to_numpy()
    raters, triplets = (pd.factorize(table[name])[0] for name in ("rater", "cluster"))
    both = pd.factorize(raters * (triplets.max() + 1) + triplets)[0]
    n = len(influences)
    by_triplet = indicator_matrix(triplets[first], int(triplets.max()) + 1).T @ influences
    by_both = _incidence(unit, both, n)
    variance = float((by_triplet**2).sum())
    variance -= _sum_over_neighbours(by_both, influences)  # they share a rater, too
    of_unit = _incidence(unit, raters, n)
    sets_of_raters = [row.tobytes() for row in _columns(of_unit)]
    same_raters = pd.factorize(pd.Series(sets_of_raters, dtype=object))[0]
    _, one_unit = np.unique(same_raters, return_index=True)
    by_raters = np.bincount(same_raters, influences).astype(np.float64)
    variance += _sum_over_neighbours(of_unit[one_unit], by_raters)
    return max(variance, float((influences**2).sum()))


def _incidence(rows: NDArray[np.intp], columns: NDArray[np.intp], n_rows: int) -> sparse.csr_array:
    """1 in each (row, column), (n_rows, n_columns)."""
    matrix = sparse.csr_array(
        (np.ones(len(rows)), (rows, columns)), shape=(n_rows, int(columns.max()) + 1)
    )
    matrix.sort_indices()
    return matrix


def _columns(matrix: sparse.csr_array) -> list[NDArray[np.intp]]:
    """The columns of each row's entries, in order."""
    return np.split(matrix.indices, matrix.indptr[1:-1])


def _sum_over_neighbours(matrix: sparse.csr_array, values: FloatArray) -> float:
    """The sum of u_i u_j over all rows i and j of the matrix that have an entry in one column."""
    total = 0.0
    for start in range(0, len(values), BLOCK_SIZE):
        shared = (matrix[start : start + BLOCK_SIZE] @ matrix.T).tocsr()
        shared.data[:] = 1.0
        total += float(values[start : start + BLOCK_SIZE] @ (shared @ values))
    return total
