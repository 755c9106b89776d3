"""Two metrics compared: which agrees better with people, on the same sets and pairs.

The interval is paired: both metrics are measured on the same resamples. The test exchanges the two
metrics for whole participants, because one person's answers depend on each other: under the null
hypothesis that they agree equally well, it does not matter by which of them a participant was
measured. To first order this flips the sign of each participant's contribution to the difference,
so the test is valid even if a metric fits some participants better than others. For few
participants it has little power: with n of them no p is below 2 / 2^n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap, ratio
from hsfiq.analysis.resampling.interval import ConfidenceInterval, with_interval
from hsfiq.analysis.resampling.permutation import Swaps, cluster_sums, holm, p_value, standard_ranks
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import why_undefined

MIN_PARTICIPANTS = 2
STATISTICS = ("spearman", "tie_half", "symmetric")


@dataclass(frozen=True)
class Difference(JsonRecord):
    """A statistic of one metric minus that of another.

    Attributes:
        ci: its interval, paired.
        p: of no difference, two-sided, by exchanging the metrics for whole participants.
        p_holm: p adjusted for all pairs of metrics (Holm 1979), for this statistic alone.
        n: the number of rows with both metrics: sets for `spearman`, else pairs.
        n_clusters: the number of participants that they come from.
        reason: why difference or p is NaN.
    """

    difference: float
    ci: ConfidenceInterval
    p: float
    p_holm: float
    n: int
    n_clusters: int
    swaps: Swaps
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "difference": json_number(self.difference),
            "p": json_number(self.p),
            "p_holm": json_number(self.p_holm),
            "p_method": {
                "method": "paired permutation, metrics exchanged for whole participants",
                "n_permutations": self.swaps.n,
                "seed": self.swaps.seed,
            },
            "n": self.n,
            "n_clusters": self.n_clusters,
        }
        return with_interval(fields, self.ci, self.reason)


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """The differences between two metrics.

    Attributes:
        other: the metric whose statistics are subtracted.
        spearman: over the sets that have both values.
        tie_half: over the pairs with a preference and all four values.
        symmetric: of these pairs, each metric's rate over those in which its values differ.
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
    sets, preferences = release.sets, release.preferences
    comparer = _Comparer(
        sets=sets,
        preferences=preferences,
        set_values={
            name: sets["set_id"].map(each).astype("float64") for name, each in values.items()
        },
        differences={name: metric_difference(preferences, each) for name, each in values.items()},
        bootstrap=bootstrap,
        swaps=swaps or Swaps(seed=bootstrap.seed),
    )
    comparisons = [comparer.compare(metric, other) for metric, other in combinations(values, 2)]
    for name in STATISTICS:
        each = [getattr(comparison, name) for comparison in comparisons]
        adjusted = holm(np.array([difference.p for difference in each], dtype=np.float64))
        comparisons = [
            replace(comparison, **{name: replace(difference, p_holm=float(p))})
            for comparison, difference, p in zip(comparisons, each, adjusted, strict=True)
        ]
    return comparisons


@dataclass(frozen=True, eq=False)
class _Comparer:
    """What all comparisons of a release share.

    The values are in the order of `sets`, the differences in that of `preferences`. A metric that
    has a value for every set is resampled once for all comparisons: `cache`, by metric and rows.
    """

    sets: pd.DataFrame
    preferences: pd.DataFrame
    set_values: MetricValues
    differences: MetricValues
    bootstrap: Bootstrap
    swaps: Swaps
    cache: dict[tuple[str, bytes], FloatArray] = field(default_factory=dict)

    def compare(self, metric: str, other: str) -> Comparison:
        rows, set_1, differences = preference.usable_pairs(
            self.preferences, self.differences[metric], self.differences[other]
        )
        return Comparison(
            metric,
            other,
            self._spearman(metric, other),
            self._rate(
                rows,
                [preference.tie_half(each, set_1) for each in differences],
                "no pair has a preference and all values",
            ),
            self._rate(
                rows,
                [preference.symmetric(each, set_1) for each in differences],
                "a metric has the same two values in every pair",
            ),
        )

    def _spearman(self, metric: str, other: str) -> Difference:
        columns = {name: self.set_values[name] for name in (metric, other)}
        present = (columns[metric] + columns[other]).notna().to_numpy()
        rows = self.sets[present]
        both = {name: np.asarray(each[present], dtype=np.float64) for name, each in columns.items()}
        scores = np.asarray(rows["score"], dtype=np.float64)
        for name, each in both.items():
            reason = why_undefined(rows.assign(value=each))
            if reason is not None:
                return self._undefined(rows, f"{name}: {reason}")
        key = present.tobytes()
        for name, each in both.items():
            if (name, key) not in self.cache:
                self.cache[name, key] = resampled_spearman(self.bootstrap, rows, each, scores)
        sums = cluster_sums(
            standard_ranks(scores),
            standard_ranks(both[metric]),
            standard_ranks(both[other]),
            _participant_codes(rows),
        )
        blocks = self.swaps.masks(*sums.moved.shape[:2])
        permuted = np.concatenate([sums.differences(block) for block in blocks])
        resampled = self.cache[metric, key] - self.cache[other, key]
        return self._difference(rows, sums.difference(), resampled, permuted)

    def _rate(
        self, rows: pd.DataFrame, terms: Sequence[preference.RateTerms], reason: str
    ) -> Difference:
        if not all(each.counted.any() for each in terms):
            return self._undefined(rows, reason)
        hits = np.column_stack([each.hits for each in terms])
        counted = np.column_stack([each.counted for each in terms]).astype(np.float64)
        resampled = self.bootstrap.ratios(rows, hits, counted)
        return self._difference(
            rows,
            terms[0].rate - terms[1].rate,
            resampled[:, 0] - resampled[:, 1],
            self._permuted(rows, hits, counted),
        )

    def _permuted(self, rows: pd.DataFrame, hits: FloatArray, counted: FloatArray) -> FloatArray:
        """The difference of the rates under each permutation, (n_permutations,)."""
        participants = _participant_codes(rows)
        columns = np.column_stack([hits, counted])
        sums = np.stack([np.bincount(participants, weights=each) for each in columns.T], axis=1)
        moved = sums[:, [1, 0, 3, 2]] - sums  # what a participant's swap changes, (people, 4)
        blocks = [
            sums.sum(axis=0) + block.astype(np.float64) @ moved
            for block in self.swaps.masks(len(sums))
        ]
        totals = np.concatenate(blocks)
        rates = ratio(totals[:, :2], totals[:, 2:])
        return np.asarray(rates[:, 0] - rates[:, 1])

    def _difference(
        self, rows: pd.DataFrame, observed: float, resampled: FloatArray, permuted: FloatArray
    ) -> Difference:
        n_clusters, p, reason = int(rows["participant_id"].nunique()), UNDEFINED, None
        if n_clusters >= MIN_PARTICIPANTS:
            p = p_value(observed, permuted)
        else:
            reason = "one participant alone gives no test"
        ci = self.bootstrap.interval(resampled, rows)
        return Difference(observed, ci, p, p, len(rows), n_clusters, self.swaps, reason)

    def _undefined(self, rows: pd.DataFrame, reason: str) -> Difference:
        n_clusters = int(rows["participant_id"].nunique())
        ci, nan = self.bootstrap.undefined_interval(rows), UNDEFINED
        return Difference(nan, ci, nan, nan, len(rows), n_clusters, self.swaps, reason)


def _participant_codes(rows: pd.DataFrame) -> NDArray[np.int64]:
    """The participant of each row, numbered from 0 in the order of their ids."""
    return np.asarray(pd.factorize(rows["participant_id"], sort=True)[0], dtype=np.int64)
