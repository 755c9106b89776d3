"""The jackknife: each figure with one participant excluded at a time.

It shows whether a conclusion depends on a single person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import ratio
from hsfiq.analysis.resampling.clusters import Clusters
from hsfiq.analysis.resampling.leave_one_out import leave_one_out_spearman
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import with_values

UNDEFINED_REASON = "undefined in every jackknife sample"


@dataclass(frozen=True)
class JackknifeRange(JsonRecord):
    """The smallest and the largest value of a figure, and who is excluded for each."""

    low: float
    high: float
    low_without: str
    high_without: str
    reason: str | None = None


@dataclass(frozen=True)
class Jackknife(JsonRecord):
    """What happens when one participant is excluded.

    Attributes:
        ranges: by statistic and metric.
        best: by statistic, every metric that is highest without some participant; more than
            one if the best metric depends on one person.
    """

    n_participants: int
    ranges: Mapping[Statistic, Mapping[str, JackknifeRange]]
    best: Mapping[Statistic, tuple[str, ...]]

    def to_json(self) -> dict[str, object]:
        by_statistic: dict[str, object] = {
            statistic: {
                "best": list(self.best[statistic]),
                "metrics": json_value(self.ranges[statistic]),
            }
            for statistic in STATISTICS
        }
        return {"n_participants": self.n_participants, **by_statistic}


def jackknife(release: Release, values: MetricValues) -> Jackknife:
    clusters = Clusters.of_column(release.preferences, "participant_id")
    people = [str(name) for name in clusters.numbers.sort_values().index]
    ranges: dict[Statistic, dict[str, JackknifeRange]] = {}
    best: dict[Statistic, tuple[str, ...]] = {}
    for statistic in STATISTICS:
        without_each = {
            name: WITHOUT_EACH[statistic](release, own, clusters) for name, own in values.items()
        }
        ranges[statistic] = {name: _range(each, people) for name, each in without_each.items()}
        best[statistic] = _best(without_each) if people else ()
    return Jackknife(len(people), ranges, best)


def rho_without_each(release: Release, values: pd.Series[float], clusters: Clusters) -> FloatArray:
    """Spearman's rho over the sets without each participant, (n_participants,)."""
    table = with_values(release.sets, values)
    x, y = (table[column].to_numpy(dtype=np.float64) for column in ("value", "score"))
    return leave_one_out_spearman(x, y, clusters.codes_of(table), clusters.size)


def tie_half_without_each(
    release: Release, values: pd.Series[float], clusters: Clusters
) -> FloatArray:
    """The tie_half over the questions without each participant, (n_participants,)."""
    rows, set_1, (difference,) = preference.usable_pairs(
        release.preferences, metric_difference(release.preferences, values)
    )
    terms, codes = preference.tie_half(difference, set_1), clusters.codes_of(rows)
    hits, counted = (
        each.sum() - np.bincount(codes, each, clusters.size) for each in (terms.hits, terms.counted)
    )
    return ratio(hits, counted)


WITHOUT_EACH: dict[Statistic, Callable[[Release, pd.Series[float], Clusters], FloatArray]] = {
    "rho": rho_without_each,
    "tie_half": tie_half_without_each,
}


def _range(without_each: FloatArray, people: Sequence[str]) -> JackknifeRange:
    if np.isnan(without_each).all():
        return JackknifeRange(UNDEFINED, UNDEFINED, "", "", UNDEFINED_REASON)
    low, high = int(np.nanargmin(without_each)), int(np.nanargmax(without_each))
    return JackknifeRange(
        float(without_each[low]), float(without_each[high]), people[low], people[high]
    )


def _best(without_each: Mapping[str, FloatArray]) -> tuple[str, ...]:
    if not without_each:
        return ()
    table = np.stack(list(without_each.values()))
    highest = table == np.nanmax(table, axis=0, initial=-np.inf)
    return tuple(name for name, row in zip(without_each, highest, strict=True) if row.any())
