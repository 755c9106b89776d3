"""The mean of each metric over a system's sets, over all of them and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate, Grouped, means_of_tables
from hsfiq.analysis.statistics.correlation import with_values


@dataclass(frozen=True)
class SetScores:
    """The mean of a metric's values by system, over all sets and by category."""

    all: Mapping[str, Estimate]
    by_category: Mapping[str, Mapping[str, Estimate]]


def set_scores(
    release: Release,
    sets: pd.DataFrame,
    names: list[str],
    values: MetricValues,
    bootstrap: Bootstrap,
) -> dict[str, SetScores]:
    """Average each metric over the systems' sets, all metrics on the same resamples."""
    categories = release.queries.set_index("query_id").get("category", pd.Series(dtype=object))
    tables: dict[tuple[str, str | None], pd.DataFrame] = {}
    for metric, own in values.items():
        needed = sets[["set_id", "participant_id", "query_id", "system"]]
        distinct = with_values(needed, own).drop_duplicates(["query_id", "system"])
        of_set = looked_up(distinct["query_id"], categories)
        tables[metric, None] = distinct
        for category in sorted(of_set.dropna().unique()):
            tables[metric, str(category)] = distinct[of_set == category]
    grouped = [
        Grouped(each, each["value"].to_numpy(np.float64), each["system"].to_numpy(object))
        for each in tables.values()
    ]
    means = dict(zip(tables, means_of_tables(grouped, names, bootstrap), strict=True))
    return {
        metric: SetScores(
            all=means[metric, None],
            by_category={
                category: each
                for (name, category), each in means.items()
                if name == metric and category is not None
            },
        )
        for metric in values
    }
