"""An estimate with its confidence interval and number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.resampling.spread import Bounds


@dataclass(frozen=True)
class Estimate(JsonRecord):
    """An estimate from n rows, NaN with a reason if undefined; no `ci` if nothing is resampled."""

    value: float
    n: int
    ci: ConfidenceInterval | None = None
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Grouped:
    """Values to average by group: (n,) finite values, and the group of each row."""

    rows: pd.DataFrame
    values: FloatArray
    groups: NDArray[np.object_]


def group_means(
    rows: pd.DataFrame,
    values: FloatArray,
    groups: NDArray[np.object_],
    names: Sequence[str],
    bootstrap: Bootstrap,
    bounds: Bounds | None = None,
) -> dict[str, Estimate]:
    """Average (n,) finite values, which lie within the bounds, by the group of each row.

    The mean of a name without rows is NaN, with a reason.
    """
    (means,) = means_of_tables([Grouped(rows, values, groups)], names, bootstrap, bounds)
    return means


def means_of_tables(
    tables: Sequence[Grouped],
    names: Sequence[str],
    bootstrap: Bootstrap,
    bounds: Bounds | None = None,
) -> list[dict[str, Estimate]]:
    """The `group_means` of several tables, on the same resamples."""
    numbers = [
        pd.Categorical(table.groups, categories=list(names)).codes.astype(np.intp)
        for table in tables
    ]
    totals = bootstrap.totals_of(
        [
            (table.rows, _sums_and_counts(table.values, own, len(names)))
            for table, own in zip(tables, numbers, strict=True)
        ]
    )
    return [
        _means(table, own, ratio(*np.hsplit(sums, 2)), names, bootstrap, bounds)
        for table, own, sums in zip(tables, numbers, totals, strict=True)
    ]


def _sums_and_counts(values: FloatArray, group: NDArray[np.intp], size: int) -> sparse.csr_array:
    """What each row adds to the sum and to the number of its group, (n, 2 size); none for -1."""
    (rows,) = np.nonzero(group >= 0)
    entries = np.concatenate([values[rows], np.ones(len(rows))])
    places = (np.tile(rows, 2), np.concatenate([group[rows], group[rows] + size]))
    return sparse.csr_array((entries, places), shape=(len(values), 2 * size))


def _means(
    table: Grouped,
    group: NDArray[np.intp],
    resampled: FloatArray,
    names: Sequence[str],
    bootstrap: Bootstrap,
    bounds: Bounds | None,
) -> dict[str, Estimate]:
    means = {}
    for number, name in enumerate(names):
        own = group == number
        if own.any():
            ci = bootstrap.interval(resampled[:, number], table.rows, own, bounds)
            means[name] = Estimate(float(table.values[own].mean()), int(own.sum()), ci)
        else:
            means[name] = Estimate(UNDEFINED, 0, None, "no value to average")
    return means
