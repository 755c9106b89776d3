"""The mean of each metric over a system's sets, over all of them and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues, bounds_of
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate, group_means
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
    of_query = release.queries.set_index("query_id").get("category", pd.Series(dtype=object))
    needed = sets[["set_id", "participant_id", "query_id", "system", "score"]]
    scores = {}
    for metric, own in values.items():
        distinct = with_values(needed, own).drop_duplicates(["query_id", "system"])
        value = distinct["value"].to_numpy(np.float64)
        system = pd.Categorical(distinct["system"], categories=names).codes
        category, categories = pd.factorize(looked_up(distinct["query_id"], of_query), sort=True)
        # Numbered by category and system; without a category, below 0.
        numbers = pd.Series(category * len(names) + system)
        bounds = bounds_of(metric)
        everywhere = group_means(distinct, value, system, range(len(names)), bootstrap, bounds)
        cells = range(len(categories) * len(names))
        each = group_means(distinct, value, numbers, cells, bootstrap, bounds)
        scores[metric] = SetScores(
            all=dict(zip(names, everywhere.values(), strict=True)),
            by_category={
                str(name): {
                    system: each[place * len(names) + number] for number, system in enumerate(names)
                }
                for place, name in enumerate(categories)
            },
        )
    return scores
