"""Intervals of figures of ranked lists, and paired tests between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.data.metrics import ScoreColumn
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.json_results import UNDEFINED, JsonRecord, json_number, with_reason
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import ConfidenceInterval, percentile_interval
from hsfiq.analysis.resampling.permutation import Swaps, holm, p_value
from hsfiq.analysis.statistics.preference import PreferenceRates, preference_rates
from hsfiq.model.evaluation.metrics import QueryRow

# Preference rates of systems as metrics, by their own scores of a release's sets.

RULES = ("ge", "gt")
"""CIRQRS section 5.4 (eq. 8) and QuRe Table 4 (eq. 9)."""


@dataclass(frozen=True, slots=True)
class SystemRates:
    """The rates of the systems whose scores the release has.

    Attributes:
        missing: systems without scores.
    """

    release: str
    simulated: bool
    n_questions: int
    rates: dict[str, PreferenceRates]
    missing: tuple[str, ...]


def rates_of(folder: Path, systems: Sequence[str], *, intervals: bool, seed: int) -> SystemRates:
    """The rates by `RELEASE.scores/SYSTEM.parquet`; UnreadableInput for an unreadable release."""
    release = read_release(folder)
    bootstrap = Bootstrap.of_release(release, seed=seed) if intervals else None
    rates = {
        system: preference_rates(
            release.preferences, ScoreColumn(system).values(release), bootstrap
        )
        for system in systems
        if system in release.scores
    }
    return SystemRates(
        f"{release.name} {release.version}",
        release.simulated,
        len(release.preferences),
        rates,
        tuple(system for system in systems if system not in release.scores),
    )


# Intervals of figures of ranked lists, and paired tests between runs.
#
# Queries with the same reference (in CIRR with the same image set) depend on each other, so they
# are resampled together, and exchanged together; each category is resampled on its own, and a
# figure over several is the mean of theirs.

RESAMPLES = 2000
BLOCK_SIZE = 2**20  # clusters drawn at once
UNIT = "reference or image set"
OVERALL = "mean"
"""The name of the figures over all parts."""
UNSETTLED = "some lists do not determine it"

Floats = NDArray[np.float64]
Intervals = dict[str, dict[str, ConfidenceInterval]]
"""By part or `OVERALL`, then by figure."""


@dataclass(frozen=True)
class RunDifference(JsonRecord):
    """A figure of one run less that of another, over all parts.

    Attributes:
        p: of no difference, two-sided, by exchanging the runs for whole clusters.
        p_holm: p adjusted for all pairs of runs (Holm 1979), for this figure alone.
        n_better, n_worse: the queries in which the first run's value is higher, or lower.
    """

    difference: float
    ci: ConfidenceInterval
    p: float
    p_holm: float
    n_better: int
    n_worse: int
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields = {
            "difference": json_number(self.difference),
            "ci": self.ci.to_json()["ci"],
            "p": json_number(self.p),
            "p_holm": json_number(self.p_holm),
            "n_better": self.n_better,
            "n_worse": self.n_worse,
        }
        return with_reason(fields, self.reason)


@dataclass(frozen=True)
class RunComparison(JsonRecord):
    """The differences of two runs by figure; those of `other` are subtracted."""

    run: str
    other: str
    figures: Mapping[str, RunDifference]


@dataclass(frozen=True, eq=False)
class Part:
    """The queries of one part.

    Attributes:
        rows: (n,) their places among all queries.
        clusters: (n,) the number of each query's cluster, from 0 in each part.
    """

    name: str
    rows: NDArray[np.intp]
    clusters: NDArray[np.intp]

    @property
    def n_clusters(self) -> int:
        return int(self.clusters.max()) + 1

    def sums(self, values: Floats) -> Floats:
        """The sums by cluster of the part's rows of (queries, m) values: (clusters, m)."""
        sums = np.zeros((self.n_clusters, values.shape[1]))
        np.add.at(sums, self.clusters, values[self.rows])
        return sums

    def resampled_means(self, values: Floats, rng: np.random.Generator) -> Floats:
        """The mean of (queries, m) values in each resample of the clusters: (resamples, m)."""
        sums, n = self.sums(values), self.n_clusters
        sizes = np.bincount(self.clusters).astype(np.float64)
        length = max(1, BLOCK_SIZE // n)
        means = []
        for start in range(0, RESAMPLES, length):
            b = min(length, RESAMPLES - start)
            drawn = rng.integers(n, size=(b, n)) + n * np.arange(b)[:, None]
            counts = np.bincount(drawn.ravel(), minlength=b * n).reshape(b, n).astype(np.float64)
            means.append((counts @ sums) / (counts @ sizes)[:, None])
        return np.concatenate(means)


def parts_of(rows: Sequence[QueryRow]) -> list[Part]:
    table = pd.DataFrame({"part": [r.part for r in rows], "cluster": [r.cluster for r in rows]})
    return [
        Part(
            str(name),
            np.flatnonzero(table["part"] == name),
            np.asarray(pd.factorize(own["cluster"])[0], dtype=np.intp),
        )
        for name, own in table.groupby("part", sort=False)
    ]


def resampled_parts(parts: Sequence[Part], values: pd.DataFrame, seed: int) -> Floats:
    """The mean of each part in each resample, (parts, resamples, figures)."""
    filled = np.nan_to_num(values.to_numpy())
    return np.stack(
        [
            part.resampled_means(filled, np.random.default_rng((seed, number)))
            for number, part in enumerate(parts)
        ]
    )


def intervals_of(
    resampled: Floats, values: pd.DataFrame, n_clusters: int, seed: int
) -> dict[str, ConfidenceInterval]:
    """The intervals of figures from their resampled means, (resamples, figures).

    `values` are those of the queries that they are computed from.
    """
    intervals = {}
    for number, name in enumerate(map(str, values.columns)):
        is_settled = not values[name].isna().any()
        statistics = resampled[:, number] if is_settled else np.full(len(resampled), np.nan)
        interval = percentile_interval(statistics, unit=UNIT, n_clusters=n_clusters, seed=seed)
        intervals[name] = interval if is_settled else replace(interval, reason=UNSETTLED)
    return intervals


def figure_intervals(rows: Sequence[QueryRow], seed: int) -> Intervals:
    """The intervals of all figures of a run; NaN, with a reason, where a figure is undefined."""
    parts, values = parts_of(rows), values_of(rows)
    resampled = resampled_parts(parts, values, seed)
    intervals = {
        part.name: intervals_of(means, values.iloc[part.rows], part.n_clusters, seed)
        for part, means in zip(parts, resampled, strict=True)
    }
    n_clusters = sum(part.n_clusters for part in parts)
    return intervals | {OVERALL: intervals_of(resampled.mean(axis=0), values, n_clusters, seed)}


def compare_runs(
    rows_of: Mapping[str, Sequence[QueryRow]], seed: int, swaps: Swaps | None = None
) -> list[RunComparison]:
    """Compare every two runs, in their order; by default with 9,999 permutations."""
    swaps = swaps or Swaps(seed=seed)
    comparisons = [
        RunComparison(run, other, differences(rows_of[run], rows_of[other], seed, swaps))
        for run, other in combinations(rows_of, 2)
    ]
    for name in comparisons[0].figures:
        p_values = np.array([each.figures[name].p for each in comparisons])
        comparisons = [
            replace(each, figures={**each.figures, name: replace(each.figures[name], p_holm=p)})
            for each, p in zip(comparisons, holm(p_values).tolist(), strict=True)
        ]
    return comparisons


def differences(
    first: Sequence[QueryRow], second: Sequence[QueryRow], seed: int, swaps: Swaps
) -> dict[str, RunDifference]:
    parts, gaps = parts_of(first), values_of(first) - values_of(second)
    n_clusters = sum(part.n_clusters for part in parts)
    intervals = intervals_of(
        resampled_parts(parts, gaps, seed).mean(axis=0), gaps, n_clusters, seed
    )
    # What each cluster adds to the mean over the parts, (clusters, figures).
    contributions = np.concatenate(
        [
            part.sums(np.nan_to_num(gaps.to_numpy())) / (len(part.rows) * len(parts))
            for part in parts
        ]
    )
    observed = contributions.sum(axis=0)
    # An exchanged cluster adds its part of the difference with the other sign.
    permuted = np.concatenate(
        [
            observed - 2 * (block.astype(np.float64) @ contributions)
            for block in swaps.masks(len(contributions))
        ]
    )
    result = {}
    for number, (name, interval) in enumerate(intervals.items()):
        is_defined = interval.reason != UNSETTLED
        p = UNDEFINED
        if is_defined and len(contributions) > 1:
            p = p_value(float(observed[number]), permuted[:, number])
        result[name] = RunDifference(
            difference=float(observed[number]) if is_defined else UNDEFINED,
            ci=interval,
            p=p,
            p_holm=p,
            n_better=int((gaps[name] > 0).sum()),
            n_worse=int((gaps[name] < 0).sum()),
            reason=interval.reason,
        )
    return result


def values_of(rows: Sequence[QueryRow]) -> pd.DataFrame:
    """The figures as columns, NaN where a list does not determine its value."""
    return pd.DataFrame([row.values for row in rows], dtype="float64")
