"""How human scores are spread, and what a metric's values are at each of them (CIRQRS Figure 9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.statistics.correlation import with_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class AtScore:
    """A metric's values of the sets that got one human score.

    Attributes:
        mean: their mean.
        quartiles: the lower quartile, the median and the upper one.
    """

    mean: Estimate
    quartiles: tuple[float, float, float]

    def to_json(self) -> dict[str, object]:
        """Return the mean's figures and "quartiles"."""
        return {**self.mean.to_json(), "quartiles": list(self.quartiles)}


@dataclass(frozen=True)
class Distribution:
    """The distribution of the scores.

    Attributes:
        counts: how many sets got each score, lowest first.
        metrics: by metric, then by score, its values; scores without a value are left out.
    """

    counts: Mapping[int, int]
    metrics: Mapping[str, Mapping[int, AtScore]]

    def to_json(self) -> dict[str, object]:
        """Return {"scores": {score: n}, "metrics": {name: {score: values}}}."""
        return {
            "scores": {str(score): n for score, n in self.counts.items()},
            "metrics": {
                name: {str(score): each.to_json() for score, each in found.items()}
                for name, found in self.metrics.items()
            },
        }


def distribution(
    release: Release, values: Mapping[str, pd.Series[float]], draws: Draws
) -> Distribution:
    """Describe the human scores, and each metric at each score.

    Args:
        release: a release; it may be empty.
        values: each metric's values by name, indexed by set_id, NaN where a set has none.
        draws: the resamples for the means' intervals.

    Returns:
        The distribution.
    """
    counts = release.sets["score"].value_counts().sort_index()
    return Distribution(
        counts={int(score): int(n) for score, n in zip(counts.index, counts, strict=True)},
        metrics={
            name: _at_scores(with_values(release.sets, own), draws) for name, own in values.items()
        },
    )


def _at_scores(table: pd.DataFrame, draws: Draws) -> dict[int, AtScore]:
    scores = table["score"].to_numpy()
    values = table["value"].to_numpy(np.float64)
    levels = [int(score) for score in np.unique(scores)]
    groups = np.array([str(score) for score in scores], dtype=object)
    means = group_means(table, values, groups, [str(level) for level in levels], draws)
    found = {}
    for level in levels:
        low, middle, high = np.quantile(values[scores == level], QUARTILES)
        quartiles = (float(low), float(middle), float(high))
        found[level] = AtScore(means[str(level)], quartiles)
    return found
