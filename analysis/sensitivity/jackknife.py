"""The jackknife: each figure with one participant excluded at a time.

It shows whether a conclusion depends on a single person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_value
from hsfiq.analysis.resampling.bootstrap import BLOCK_SIZE, Bootstrap
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic, resampled_statistic

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


class _LeaveOneOut(Bootstrap):
    """As many resamples as participants: each excludes one and has all others once."""

    def _blocks(self, sizes: Sequence[int], width: int) -> Iterator[list[FloatArray]]:
        (size,) = sizes
        block_length = max(1, BLOCK_SIZE // max(1, width, size))
        for start in range(0, size, block_length):
            block = np.ones((min(block_length, size - start), size))
            block[np.arange(len(block)), start + np.arange(len(block))] = 0.0
            yield [block]


def jackknife(release: Release, values: MetricValues) -> Jackknife:
    (clusters,) = Bootstrap.of_release(release).clusters
    people = [str(name) for name in clusters.ids[np.argsort(clusters.codes)]]
    leave_one_out = _LeaveOneOut(
        unit="participant",
        n_resamples=len(people),
        seed=0,
        correction="none",
        clusters=(clusters,),
        n_clusters=len(people),
    )
    ranges: dict[Statistic, dict[str, JackknifeRange]] = {}
    best: dict[Statistic, tuple[str, ...]] = {}
    for statistic in STATISTICS:
        without_each = {
            name: resampled_statistic(statistic, release, own, leave_one_out)[1]
            if people
            else np.array([])
            for name, own in values.items()
        }
        ranges[statistic] = {name: _range(each, people) for name, each in without_each.items()}
        best[statistic] = _best(without_each) if people else ()
    return Jackknife(len(people), ranges, best)


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
