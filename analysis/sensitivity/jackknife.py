"""One participant left out at a time: whether a conclusion hangs on one person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.figures import UNDEFINED, figure, with_reason
from hsfiq.analysis.resampling.draws import AT_ONCE, Draws
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic, resampled_statistic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from hsfiq.analysis.data.release import Release

UNDEFINED_WHERE = "undefined whoever is left out"


@dataclass(frozen=True)
class Range:
    """The least and the greatest that a figure becomes.

    Attributes:
        low: the least; NaN where the figure is undefined whoever is left out.
        high: the greatest.
        low_without: who is left out where it is the least.
        high_without: who is left out where it is the greatest.
    """

    low: float
    high: float
    low_without: str
    high_without: str

    def to_json(self) -> dict[str, object]:
        """Return {"low", "high", "low_without", "high_without"}, or nulls beside a reason."""
        written: dict[str, object] = {
            "low": figure(self.low),
            "high": figure(self.high),
            "low_without": self.low_without,
            "high_without": self.high_without,
        }
        return with_reason(written, UNDEFINED_WHERE if np.isnan(self.low) else None)


@dataclass(frozen=True)
class LeftOut:
    """What happens when one participant is left out.

    Attributes:
        n_participants: how many there are to leave out.
        ranges: by statistic and metric.
        best: by statistic, every metric that has the highest value without somebody; more than
            one where the best hangs on one person.
    """

    n_participants: int
    ranges: Mapping[Statistic, Mapping[str, Range]]
    best: Mapping[Statistic, tuple[str, ...]]

    def to_json(self) -> dict[str, object]:
        """Return {"n_participants", statistic: {"best", "metrics": {name: range}}}."""
        found: dict[str, object] = {"n_participants": self.n_participants}
        for statistic in STATISTICS:
            found[statistic] = {
                "best": list(self.best[statistic]),
                "metrics": {name: each.to_json() for name, each in self.ranges[statistic].items()},
            }
        return found


class _WithoutEach(Draws):
    """As many resamples as there are participants: each lacks one of them and has the others."""

    def _drawn(self, sizes: Sequence[int], width: int) -> Iterator[list[NDArray[np.float64]]]:
        (size,) = sizes
        at_once = max(1, AT_ONCE // max(1, width, size))
        for start in range(0, size, at_once):
            block = np.ones((min(at_once, size - start), size))
            block[np.arange(len(block)), start + np.arange(len(block))] = 0.0
            yield [block]


def left_out(release: Release, values: Mapping[str, pd.Series[float]]) -> LeftOut:
    """Measure each metric without each of the participants.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.

    Returns:
        The ranges; NaN, with a reason, where a figure is undefined whoever is left out.
    """
    (clusters,) = Draws.of(release).clusters
    people = [str(name) for name in clusters.ids[np.argsort(clusters.codes)]]
    without_each = _WithoutEach(
        unit="participant",
        n_resamples=len(people),
        seed=0,
        correction="none",
        clusters=(clusters,),
        n_clusters=len(people),
    )
    ranges: dict[Statistic, dict[str, Range]] = {}
    best: dict[Statistic, tuple[str, ...]] = {}
    for statistic in STATISTICS:
        found = {
            name: resampled_statistic(statistic, release, own, without_each)[1]
            for name, own in values.items()
            if people
        }
        ranges[statistic] = {name: _range(found.get(name, np.array([])), people) for name in values}
        best[statistic] = _best(found)
    return LeftOut(len(people), ranges, best)


def _range(found: NDArray[np.float64], people: Sequence[str]) -> Range:
    if np.isnan(found).all():
        return Range(UNDEFINED, UNDEFINED, "", "")
    low, high = int(np.nanargmin(found)), int(np.nanargmax(found))
    return Range(float(found[low]), float(found[high]), people[low], people[high])


def _best(found: Mapping[str, NDArray[np.float64]]) -> tuple[str, ...]:
    if not found:
        return ()
    table = np.stack(list(found.values()))
    highest = table == np.nanmax(table, axis=0, initial=-np.inf)
    return tuple(name for name, row in zip(found, highest, strict=True) if row.any())
