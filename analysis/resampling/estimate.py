"""An estimate with its confidence interval and number of rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.ids import looked_up
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


def group_means(
    rows: pd.DataFrame,
    values: FloatArray,
    groups: NDArray[Any] | pd.Series[Any],
    names: Sequence[Hashable],
    bootstrap: Bootstrap,
    bounds: Bounds | None,
) -> dict[Any, Estimate]:
    """Average (n,) finite values by the group of each row.

    `bounds` is the range of the values, None if they have none: intervals stay within it.

    The mean of a name without rows is NaN, with a reason; rows of other groups are left out.
    """
    numbers = pd.Series(range(len(names)), index=pd.Index(list(names)))
    group = looked_up(pd.Series(groups), numbers).fillna(-1).to_numpy(dtype=np.intp)
    sums = bootstrap.totals(rows, _sums_and_counts(values, group, len(names)))
    resampled = ratio(*np.hsplit(sums, 2))
    means = {}
    for number, name in enumerate(names):
        own = group == number
        if own.any():
            ci = bootstrap.interval(resampled[:, number], rows, own, bounds)
            means[name] = Estimate(float(values[own].mean()), int(own.sum()), ci)
        else:
            means[name] = Estimate(UNDEFINED, 0, None, "no value to average")
    return means


def _sums_and_counts(values: FloatArray, group: NDArray[np.intp], size: int) -> sparse.csr_array:
    """What each row adds to the sum and to the number of its group, (n, 2 size); none for -1."""
    (rows,) = np.nonzero(group >= 0)
    entries = np.concatenate([values[rows], np.ones(len(rows))])
    places = (np.tile(rows, 2), np.concatenate([group[rows], group[rows] + size]))
    return sparse.csr_array((entries, places), shape=(len(values), 2 * size))
