"""An estimate with its confidence interval and number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
    inside = [
        (table.groups[:, None] == np.array(names, dtype=object)).astype(np.float64)
        for table in tables
    ]
    totals = bootstrap.totals_of(
        [
            (table.rows, np.concatenate([own * table.values[:, None], own], axis=1))
            for table, own in zip(tables, inside, strict=True)
        ]
    )
    return [
        _means(table, own, ratio(*np.hsplit(sums, 2)), names, bootstrap, bounds)
        for table, own, sums in zip(tables, inside, totals, strict=True)
    ]


def _means(
    table: Grouped,
    inside: FloatArray,
    resampled: FloatArray,
    names: Sequence[str],
    bootstrap: Bootstrap,
    bounds: Bounds | None,
) -> dict[str, Estimate]:
    means = {}
    for number, name in enumerate(names):
        own = inside[:, number] > 0
        if own.any():
            ci = bootstrap.interval(resampled[:, number], table.rows, own, bounds)
            means[name] = Estimate(float(table.values[own].mean()), int(own.sum()), ci)
        else:
            means[name] = Estimate(UNDEFINED, 0, None, "no value to average")
    return means
