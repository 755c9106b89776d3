"""Two metrics compared: which agrees better with people, on the same sets and pairs.

The interval is paired: both metrics are measured on the same resamples. If participants are
resampled, the test exchanges the two metrics for whole participants, because one person's answers
depend on each other: under the null hypothesis that they agree equally well, it does not matter by
which of them a participant was measured. To first order this flips the sign of each participant's
contribution to the difference, so the test is valid even if a metric fits some participants better
than others. For few participants it has little power: with n of them no p is below 2 / 2^n.

If several participants judged the same triplets, no exchange of whole participants or of whole
triplets leaves the answers as likely as before. Then p comes from Student's t with the two-way
variance of the difference, as the interval does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.answers import metric_difference
from hsfiq.analysis.data.ids import looked_up
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_values import UNDEFINED, JsonRecord, json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit, ratio
from hsfiq.analysis.resampling.interval import ConfidenceInterval, with_interval
from hsfiq.analysis.resampling.permutation import Swaps, cluster_sums, holm, p_value, standard_ranks
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.correlation import why_undefined

MIN_CLUSTERS = 2
SWAP_METHODS: dict[Unit, str] = {
    "participant": "paired permutation, metrics exchanged for whole participants",
    "triplet": "paired permutation, metrics exchanged for whole triplets",
    "row": "paired permutation, metrics exchanged for single rows",
}
STATISTICS = ("spearman", "tie_half", "symmetric")


@dataclass(frozen=True)
class Difference(JsonRecord):
    """A statistic of one metric minus that of another.

    Attributes:
        ci: its interval, paired.
        p: of no difference, two-sided.
        p_holm: p adjusted for all pairs of metrics and all statistics together (Holm 1979).
        p_method: how p was computed.
        n: the number of rows with both metrics: sets for `spearman`, else pairs.
        n_clusters: the number of clusters that they come from.
        swaps: the permutations; None if p comes from Student's t.
        reason: why difference or p is NaN.
    """

    difference: float
    ci: ConfidenceInterval
    p: float
    p_holm: float
    p_method: str
    n: int
    n_clusters: int
    swaps: Swaps | None
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        swaps = self.swaps
        fields: dict[str, object] = {
            "difference": json_number(self.difference),
            "p": json_number(self.p),
            "p_holm": json_number(self.p_holm),
            "p_method": {
                "method": self.p_method,
                **({"n_permutations": swaps.n, "seed": swaps.seed} if swaps is not None else {}),
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
    sets, preferences = release.sets, release.preferences
    comparer = _Comparer(
        sets=sets,
        preferences=preferences,
        set_values={
            name: looked_up(sets["set_id"], each).astype("float64") for name, each in values.items()
        },
        differences={name: metric_difference(preferences, each) for name, each in values.items()},
        bootstrap=bootstrap,
        swaps=swaps or Swaps(seed=bootstrap.seed),
    )
    return adjusted([comparer.compare(*pair) for pair in combinations(values, 2)])


def adjusted(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjust the p of all statistics of all comparisons as one family (Holm 1979)."""
    family = [[getattr(each, name).p for name in STATISTICS] for each in comparisons]
    by_statistic = holm(np.array(family, dtype=np.float64).ravel()).reshape(-1, len(STATISTICS))
    return [
        replace(
            comparison,
            **{
                name: replace(getattr(comparison, name), p_holm=float(p))
                for name, p in zip(STATISTICS, own, strict=True)
            },
        )
        for comparison, own in zip(comparisons, by_statistic, strict=True)
    ]


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
        untied = np.all([each != 0 for each in differences], axis=0)
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
                rows[untied],
                [preference.symmetric(each[untied], set_1[untied]) for each in differences],
                "in every pair, one of the metrics has the same two values",
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
        resampled = self.cache[metric, key] - self.cache[other, key]

        def permuted() -> FloatArray:
            ranks = [standard_ranks(each) for each in (scores, both[metric], both[other])]
            sums = cluster_sums(ranks[0], ranks[1], ranks[2], self._swapped_units(rows))
            blocks = self.swaps.masks(*sums.moved.shape[:2])
            return np.concatenate([sums.differences(block) for block in blocks])

        return self._difference(rows, resampled, permuted)

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
            resampled[:, 0] - resampled[:, 1],
            lambda: self._permuted_rates(rows, hits, counted),
        )

    def _permuted_rates(
        self, rows: pd.DataFrame, hits: FloatArray, counted: FloatArray
    ) -> FloatArray:
        """The difference of the rates under each permutation, (n_permutations,)."""
        units = self._swapped_units(rows)
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

    def _difference(
        self, rows: pd.DataFrame, resampled: FloatArray, permuted: Callable[[], FloatArray]
    ) -> Difference:
        """The difference with its interval and p; `permuted` computes it for all permutations."""
        observed = float(resampled[0])
        ci = self.bootstrap.interval(resampled, rows)
        n_clusters = self.bootstrap.n_clusters_of(rows)
        difference = Difference(
            observed, ci, UNDEFINED, UNDEFINED, "none", len(rows), n_clusters, None
        )
        if n_clusters < MIN_CLUSTERS:
            return replace(difference, reason=f"one {self.bootstrap.unit} alone gives no test")
        if len(self.bootstrap.parts) > 1:
            p, method, swaps = self.bootstrap.p(resampled, rows), ci.method, None
        else:
            p, swaps = p_value(observed, permuted()), self.swaps
            method = SWAP_METHODS[self.bootstrap.unit]
        reason = "all resamples give the same difference" if np.isnan(p) else None
        return replace(difference, p=p, p_method=method, swaps=swaps, reason=reason)

    def _undefined(self, rows: pd.DataFrame, reason: str) -> Difference:
        n_clusters, ci = self.bootstrap.n_clusters_of(rows), self.bootstrap.undefined_interval(rows)
        nan = UNDEFINED
        return Difference(nan, ci, nan, nan, "none", len(rows), n_clusters, None, reason)

    def _swapped_units(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """The resampled unit of each row, numbered from 0 in the order of the ids."""
        codes = self.bootstrap.parts[0].codes(rows)
        return np.unique(codes, return_inverse=True)[1]
