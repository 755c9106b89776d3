"""An estimate with its confidence interval and number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.interval import ConfidenceInterval


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
    groups: NDArray[np.object_],
    names: Sequence[str],
    bootstrap: Bootstrap,
) -> dict[str, Estimate]:
    """Average (n,) finite values by the group of each row.

    The mean of a name without rows is NaN, with a reason.
    """
    inside = (groups[:, None] == np.array(names, dtype=object)).astype(np.float64)
    resampled = bootstrap.ratios(rows, inside * values[:, None], inside)
    means = {}
    for number, name in enumerate(names):
        own = inside[:, number] > 0
        if own.any():
            ci = bootstrap.interval(resampled[:, number], rows[own])
            means[name] = Estimate(float(values[own].mean()), int(own.sum()), ci)
        else:
            means[name] = Estimate(UNDEFINED, 0, None, "no value to average")
    return means
