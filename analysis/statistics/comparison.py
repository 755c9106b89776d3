"""Two metrics compared: which agrees better with people, on the same sets and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from hsfiq.analysis.data.columns import looked_up, metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import BoolArray, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.permutation import (
    Difference,
    PairedSums,
    Swaps,
    adjusted,
    standard_ranks,
    swapped_units,
    tested_difference,
    undefined_difference,
    unit_sums,
)
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import why_undefined

STATISTICS = ("spearman", "tie_half", "symmetric")


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """The differences between two metrics.

    Attributes:
        other: the metric whose statistics are subtracted.
        spearman: over the sets that have both values.
        tie_half: over the pairs with a preference and all four values.
        symmetric: over those of these pairs in which the values of both metrics differ.
    """

    metric: str
    other: str
    spearman: Difference
    tie_half: Difference
    symmetric: Difference

    def to_json(self) -> dict[str, object]:
        differences = {name: getattr(self, name).to_json() for name in STATISTICS}
        return {"metric": self.metric, "other": self.other, **differences}


def compare_all(
    release: Release, values: MetricValues, bootstrap: Bootstrap, swaps: Swaps | None = None
) -> list[Comparison]:
    """Compare every two metrics, in their order; undefined differences are NaN, with a reason.

    By default there are 9,999 permutations, with the seed of `bootstrap`.
    """
    comparer = _comparer(release, values, bootstrap, swaps)
    return _adjusted([comparer.compare(*pair) for pair in combinations(values, 2)])


def compare_by(
    statistic: str, release: Release, values: MetricValues, bootstrap: Bootstrap
) -> list[tuple[str, str, Difference]]:
    """Compare every two metrics by one of `STATISTICS` alone; p is not adjusted."""
    comparer = _comparer(release, values, bootstrap, None)
    return [(*pair, comparer.by(statistic, *pair)) for pair in combinations(values, 2)]


def _comparer(
    release: Release, values: MetricValues, bootstrap: Bootstrap, swaps: Swaps | None
) -> _Comparer:
    sets, preferences = release.sets, release.preferences
    return _Comparer(
        sets=sets,
        preferences=preferences,
        set_values={
            name: looked_up(sets["set_id"], each).astype("float64") for name, each in values.items()
        },
        differences={name: metric_difference(preferences, each) for name, each in values.items()},
        bootstrap=bootstrap,
        swaps=swaps or Swaps(seed=bootstrap.seed),
    )


def _adjusted(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjust the p of all statistics of all comparisons as one family."""
    family = iter(adjusted([getattr(each, name) for each in comparisons for name in STATISTICS]))
    return [
        Comparison(each.metric, each.other, next(family), next(family), next(family))
        for each in comparisons
    ]


@dataclass(frozen=True, eq=False)
class _OfMetric:
    """The values of one metric over some sets that comparisons need.

    Attributes:
        resampled: its rho, (length,).
        sums: the `unit_sums` of its ranks, (units, 3).
    """

    resampled: FloatArray
    sums: FloatArray


@dataclass(frozen=True, eq=False)
class _Comparer:
    """The common inputs of all comparisons of a release.

    The values are in the order of `sets`, the differences in that of `preferences`. `cache` has
    what was computed of a metric over the sets with these values.
    """

    sets: pd.DataFrame
    preferences: pd.DataFrame
    set_values: MetricValues
    differences: MetricValues
    bootstrap: Bootstrap
    swaps: Swaps
    cache: dict[tuple[str, bytes], _OfMetric | str] = field(default_factory=dict)

    def compare(self, metric: str, other: str) -> Comparison:
        usable = self._usable_pairs(metric, other)
        rho = self._spearman(metric, other)
        return Comparison(metric, other, rho, self._tie_half(*usable), self._symmetric(*usable))

    def by(self, statistic: str, metric: str, other: str) -> Difference:
        if statistic == "spearman":
            return self._spearman(metric, other)
        usable = self._usable_pairs(metric, other)
        return self._tie_half(*usable) if statistic == "tie_half" else self._symmetric(*usable)

    def _usable_pairs(
        self, metric: str, other: str
    ) -> tuple[pd.DataFrame, BoolArray, list[FloatArray]]:
        first, second = self.differences[metric], self.differences[other]
        return preference.usable_pairs(self.preferences, first, second)

    def _tie_half(
        self, rows: pd.DataFrame, set_1: BoolArray, differences: Sequence[FloatArray]
    ) -> Difference:
        terms = [preference.tie_half(each, set_1) for each in differences]
        return self._rate(rows, terms, "no pair has a preference and all values")

    def _symmetric(
        self, rows: pd.DataFrame, set_1: BoolArray, differences: Sequence[FloatArray]
    ) -> Difference:
        untied = np.all([each != 0 for each in differences], axis=0)
        terms = [preference.symmetric(each[untied], set_1[untied]) for each in differences]
        reason = "in every pair, one of the metrics has the same two values"
        return self._rate(rows[untied], terms, reason)

    def _spearman(self, metric: str, other: str) -> Difference:
        present = (self.set_values[metric] + self.set_values[other]).notna().to_numpy()
        rows = self.sets if present.all() else self.sets[present]
        both = []
        for name in (metric, other):
            each = self._of_metric(name, rows, present)
            if isinstance(each, str):
                return undefined_difference(self.bootstrap, rows, f"{name}: {each}")
            both.append(each)
        first, second = both

        def permuted() -> FloatArray:
            sums = PairedSums.of_units(first.sums, second.sums, len(rows))
            blocks = self.swaps.masks(*sums.moved.shape[:2])
            return np.concatenate([sums.differences(block) for block in blocks])

        resampled = first.resampled - second.resampled
        return tested_difference(self.bootstrap, rows, resampled, permuted, self.swaps, None)

    def _of_metric(self, name: str, rows: pd.DataFrame, present: BoolArray) -> _OfMetric | str:
        """The metric over these sets, or why its rho is undefined."""
        key = (name, present.tobytes())
        if key not in self.cache:
            values = np.asarray(self.set_values[name], dtype=np.float64)[present]
            scores = np.asarray(rows["score"], dtype=np.float64)
            self.cache[key] = why_undefined(values, scores) or _OfMetric(
                resampled_spearman(self.bootstrap, rows, values, scores),
                unit_sums(
                    standard_ranks(scores),
                    standard_ranks(values),
                    swapped_units(self.bootstrap, rows),
                ),
            )
        return self.cache[key]

    def _rate(
        self, rows: pd.DataFrame, terms: Sequence[preference.RateTerms], reason: str
    ) -> Difference:
        if not all(each.counted.any() for each in terms):
            return undefined_difference(self.bootstrap, rows, reason)
        hits = np.column_stack([each.hits for each in terms])
        counted = np.column_stack([each.counted for each in terms]).astype(np.float64)
        first, second = terms
        return tested_difference(
            self.bootstrap,
            rows,
            np.array([first.rate - second.rate]),
            lambda: self._permuted_rates(rows, hits, counted),
            self.swaps,
            first.errors - second.errors,
        )

    def _permuted_rates(
        self, rows: pd.DataFrame, hits: FloatArray, counted: FloatArray
    ) -> FloatArray:
        """The difference of the rates under each permutation, (n_permutations,)."""
        units = swapped_units(self.bootstrap, rows)
        columns = np.column_stack([hits, counted])
        sums = np.stack([np.bincount(units, weights=each) for each in columns.T], axis=1)
        moved = sums[:, [1, 0, 3, 2]] - sums  # what the swap of a unit changes, (units, 4)
        blocks = [
            sums.sum(axis=0) + block.astype(np.float64) @ moved
            for block in self.swaps.masks(len(sums))
        ]
        totals = np.concatenate(blocks)
        rates = ratio(totals[:, :2], totals[:, 2:])
        return np.asarray(rates[:, 0] - rates[:, 1])
