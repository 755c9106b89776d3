"""The jackknife: each figure with one participant excluded at a time.

It shows whether a conclusion depends on a single person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.json_values import UNDEFINED, json_number, with_reason
from hsfiq.analysis.resampling.bootstrap import BLOCK_SIZE, Bootstrap
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic, resampled_statistic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.data.release import Release

UNDEFINED_REASON = "undefined whoever is left out"


@dataclass(frozen=True)
class JackknifeRange:
    """The smallest and the largest value of a figure.

    Attributes:
        low: the smallest; NaN if the figure is undefined whoever is excluded.
        high: the largest.
        low_without: who is excluded for the smallest.
        high_without: who is excluded for the largest.
    """

    low: float
    high: float
    low_without: str
    high_without: str

    def to_json(self) -> dict[str, object]:
        """Return {"low", "high", "low_without", "high_without"}, or nulls beside a reason."""
        fields: dict[str, object] = {
            "low": json_number(self.low),
            "high": json_number(self.high),
            "low_without": self.low_without,
            "high_without": self.high_without,
        }
        return with_reason(fields, UNDEFINED_REASON if np.isnan(self.low) else None)


@dataclass(frozen=True)
class Jackknife:
    """What happens when one participant is excluded.

    Attributes:
        n_participants: the number of participants.
        ranges: by statistic and metric.
        best: by statistic, every metric that has the highest value without somebody; more than
            one if the best metric depends on one person.
    """

    n_participants: int
    ranges: Mapping[Statistic, Mapping[str, JackknifeRange]]
    best: Mapping[Statistic, tuple[str, ...]]

    def to_json(self) -> dict[str, object]:
        """Return {"n_participants", statistic: {"best", "metrics": {name: range}}}."""
        fields: dict[str, object] = {"n_participants": self.n_participants}
        for statistic in STATISTICS:
            fields[statistic] = {
                "best": list(self.best[statistic]),
                "metrics": {name: each.to_json() for name, each in self.ranges[statistic].items()},
            }
        return fields


class _LeaveOneOut(Bootstrap):
    """As many resamples as participants: each excludes one and has all others once."""

    def _blocks(self, sizes: Sequence[int], width: int) -> Iterator[list[NDArray[np.float64]]]:
        (size,) = sizes
        block_length = max(1, BLOCK_SIZE // max(1, width, size))
        for start in range(0, size, block_length):
            block = np.ones((min(block_length, size - start), size))
            block[np.arange(len(block)), start + np.arange(len(block))] = 0.0
            yield [block]


def jackknife(release: Release, values: Mapping[str, pd.Series[float]]) -> Jackknife:
    """Measure each metric with each participant excluded in turn.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.

    Returns:
        The ranges; NaN, with a reason, if a figure is undefined whoever is excluded.
    """
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


def _range(without_each: NDArray[np.float64], people: Sequence[str]) -> JackknifeRange:
    if np.isnan(without_each).all():
        return JackknifeRange(UNDEFINED, UNDEFINED, "", "")
    low, high = int(np.nanargmin(without_each)), int(np.nanargmax(without_each))
    return JackknifeRange(
        float(without_each[low]), float(without_each[high]), people[low], people[high]
    )


def _best(without_each: Mapping[str, NDArray[np.float64]]) -> tuple[str, ...]:
    if not without_each:
        return ()
    table = np.stack(list(without_each.values()))
    highest = table == np.nanmax(table, axis=0, initial=-np.inf)
    return tuple(name for name, row in zip(without_each, highest, strict=True) if row.any())
