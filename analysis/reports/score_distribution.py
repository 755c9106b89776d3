"""The distribution of the human scores, and a metric's values at each score (CIRQRS Figure 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hsfiq.analysis.data.metrics import bounds_of
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.estimate import Estimate, group_means
from hsfiq.analysis.resampling.spread import Bounds
from hsfiq.analysis.statistics.correlation import with_values

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class ValuesAtScore:
    """A metric's values on the sets with one human score: mean, quartiles and median."""

    mean: Estimate
    quartiles: tuple[float, float, float]

    def to_json(self) -> dict[str, object]:
        return {**self.mean.to_json(), "quartiles": list(self.quartiles)}


@dataclass(frozen=True)
class ScoreDistribution:
    """The distribution of the human scores.

    Attributes:
        counts: the number of sets with each score, lowest score first.
        metrics: by metric and score, the metric's values; a score without values is absent.
    """

    counts: Mapping[int, int]
    metrics: Mapping[str, Mapping[int, ValuesAtScore]]

    @property
    def n_sets(self) -> int:
        return sum(self.counts.values())

    def to_json(self) -> dict[str, object]:
        return {
            "scores": {str(score): n for score, n in self.counts.items()},
            "metrics": {
                name: {str(score): values.to_json() for score, values in by_score.items()}
                for name, by_score in self.metrics.items()
            },
        }


def score_distribution(
    release: Release, values: Mapping[str, pd.Series[float]], bootstrap: Bootstrap
) -> ScoreDistribution:
    counts = release.sets["score"].value_counts().sort_index()
    return ScoreDistribution(
        counts={int(score): int(n) for score, n in zip(counts.index, counts, strict=True)},
        metrics={
            name: _by_score(with_values(release.sets, metric), bootstrap, bounds_of(name))
            for name, metric in values.items()
        },
    )


def _by_score(
    sets: pd.DataFrame, bootstrap: Bootstrap, bounds: Bounds | None
) -> dict[int, ValuesAtScore]:
    scores = sets["score"].to_numpy()
    values = sets["value"].to_numpy(np.float64)
    levels = [int(score) for score in np.unique(scores)]
    groups = np.array([str(score) for score in scores], dtype=object)
    means = group_means(sets, values, groups, [str(level) for level in levels], bootstrap, bounds)
    by_score = {}
    for level in levels:
        low, median, high = np.quantile(values[scores == level], QUARTILES)
        quartiles = (float(low), float(median), float(high))
        by_score[level] = ValuesAtScore(means[str(level)], quartiles)
    return by_score
