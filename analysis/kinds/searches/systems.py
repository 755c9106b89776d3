"""Means by system, with an interval each, of what some rows do not have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.json_values import UNDEFINED
from hsfiq.analysis.kinds.kind import system_names
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.resampling.spread import Bounds

ALL = "all"


def means_by_system(
    rows: pd.DataFrame,
    values: FloatArray,
    bootstrap: Bootstrap,
    bounds: Bounds | None = None,
    reason: str = "no value to average",
) -> dict[str, Estimate]:
    """The mean of each system's values, (n,), and of all if there are several systems.

    Rows with NaN are left out; a mean without any row is undefined for this reason.
    """
    systems = system_names(rows)
    names = sorted(set(systems))
    groups = {name: (systems == name).to_numpy() for name in names}
    if len(names) != 1:
        groups[ALL] = np.ones(len(rows), dtype=np.bool_)
    known = ~np.isnan(values)
    means = {}
    for name, own in groups.items():
        if not (own & known).any():
            means[name] = Estimate(UNDEFINED, 0, None, reason)
            continue
        group = np.where(own & known, 1, 0)[known]
        means[name] = group_means(rows[known], values[known], group, [1], bootstrap, bounds)[1]
    return means


def transposed(
    columns: Mapping[str, Mapping[str, Estimate]],
) -> dict[str, dict[str, Estimate]]:
    """Figures by system, then by column, from those by column, then by system."""
    systems = dict.fromkeys(name for column in columns.values() for name in column)
    return {
        name: {title: column[name] for title, column in columns.items() if name in column}
        for name in systems
    }
