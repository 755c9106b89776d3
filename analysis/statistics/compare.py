"""Metric against metric: which of two agrees better with people, on the same sets and pairs.

The interval is paired: both metrics are measured on the same resamples. The test exchanges the two
metrics for whole participants, since what one person answers hangs together: under the hypothesis
that they agree equally well, it does not matter which of them a participant was measured by. To
first order that turns the sign of what each participant adds to the difference, so the test holds
where participants differ in how well a metric fits them. Of few participants it can say little:
with n of them no p is below 2 / 2^n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.data.answers import metric_margin
from hsfiq.analysis.figures import UNDEFINED, figure
from hsfiq.analysis.resampling.interval import with_interval
from hsfiq.analysis.resampling.permutation import Swaps, cluster_sums, holm, p_value, standard_ranks
from hsfiq.analysis.resampling.shares import resampled_shares, shares
from hsfiq.analysis.resampling.spearman_clusters import resampled_spearman
from hsfiq.analysis.statistics.correlation import why_undefined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hsfiq.analysis.data.release import Release
    from hsfiq.analysis.resampling.draws import Draws
    from hsfiq.analysis.resampling.interval import Interval

LEAST_PARTICIPANTS = 2
STATISTICS = ("spearman", "tie_half", "symmetric")


@dataclass(frozen=True)
class Difference:
    """What one statistic of a metric is above that of another.

    Attributes:
        difference: the metric's figure minus the other's, on the same rows.
        ci: its interval, paired.
        p: of no difference, two-sided, by exchanging the metrics for whole participants.
        p_holm: p adjusted for all pairs of metrics (Holm 1979), this statistic's alone.
        n: how many rows both metrics were measured on: sets for `spearman`, else pairs.
        n_clusters: how many participants they come from.
        swaps: the permutations that p comes from.
        reason: why difference or p is NaN, where one is.
    """

    difference: float
    ci: Interval
    p: float
    p_holm: float
    n: int
    n_clusters: int
    swaps: Swaps
    reason: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the figures by the attributes' names, "ci_method" and "p_method"."""
        result: dict[str, object] = {
            "difference": figure(self.difference),
            "p": figure(self.p),
            "p_holm": figure(self.p_holm),
            "p_method": {
                "method": "paired permutation, metrics exchanged for whole participants",
                "n_permutations": self.swaps.n,
                "seed": self.swaps.seed,
            },
            "n": self.n,
            "n_clusters": self.n_clusters,
        }
        return with_interval(result, self.ci, self.reason)


@dataclass(frozen=True)
class Comparison:
    """One metric against another.

    Attributes:
        metric: the name of the one.
        other: the name of the other, whose figures are taken off.
        spearman: over the sets that have both values.
        tie_half: over the pairs with a preference and all four values.
        symmetric: of these pairs, each metric's rate over those that it tells apart.
    """

    metric: str
    other: str
    spearman: Difference
    tie_half: Difference
    symmetric: Difference

    def to_json(self) -> dict[str, object]:
        """Return the names and each statistic's difference."""
        found = {name: getattr(self, name).to_json() for name in STATISTICS}
        return {"metric": self.metric, "other": self.other, **found}


def compare_all(
    release: Release,
    values: Mapping[str, pd.Series[float]],
    draws: Draws,
    swaps: Swaps | None = None,
) -> list[Comparison]:
    """Compare every two metrics.

    Args:
        release: a release.
        values: each metric's values by its name, indexed by set_id, NaN where a set has none.
        draws: of the release.
        swaps: the permutations; without them, 9,999 by the seed of `draws`.

    Returns:
        The comparisons, in the order of the metrics; none of fewer than two. What is undefined is
        NaN, with a reason.
    """
    sets, asked = release.sets, release.preferences
    comparing = _Comparing(
        sets=sets,
        asked=asked,
        of_sets={name: sets["set_id"].map(each).astype("float64") for name, each in values.items()},
        signs={name: metric_margin(asked, each).apply(np.sign) for name, each in values.items()},
        draws=draws,
        swaps=swaps or Swaps(seed=draws.seed),
        resampled={},
    )
    found = [comparing.compare(metric, other) for metric, other in combinations(values, 2)]
    for name in STATISTICS:
        each = [getattr(comparison, name) for comparison in found]
        adjusted = holm(np.array([difference.p for difference in each], dtype=np.float64))
        found = [
            replace(comparison, **{name: replace(difference, p_holm=float(p))})
            for comparison, difference, p in zip(found, each, adjusted, strict=True)
        ]
    return found


@dataclass(frozen=True, eq=False)
class _Comparing:
    """What all comparisons of a release share.

    Attributes:
        sets: of the release.
        asked: its preferences.
        of_sets: each metric's values, in the order of `sets`.
        signs: 1 where a metric puts set 1 of a pair first, -1 where set 2, 0 where it ties.
        draws: for the intervals.
        swaps: for the tests.
        resampled: the correlations of each resample, by the metric and the rows: metrics that have
            a value for every set are resampled once, whatever they are compared with.
    """

    sets: pd.DataFrame
    asked: pd.DataFrame
    of_sets: Mapping[str, pd.Series[float]]
    signs: Mapping[str, pd.Series[float]]
    draws: Draws
    swaps: Swaps
    resampled: dict[tuple[str, bytes], NDArray[np.float64]]

    def compare(self, metric: str, other: str) -> Comparison:
        return Comparison(metric, other, self._spearman(metric, other), *self._rates(metric, other))

    def _spearman(self, metric: str, other: str) -> Difference:
        mapped = {name: self.of_sets[name] for name in (metric, other)}
        present = (mapped[metric] + mapped[other]).notna().to_numpy()
        rows = self.sets[present]
        both = {name: np.asarray(each[present], dtype=np.float64) for name, each in mapped.items()}
        scores = np.asarray(rows["score"], dtype=np.float64)
        for name, each in both.items():
            reason = why_undefined(rows.assign(value=each))
            if reason is not None:
                return self._difference(rows, UNDEFINED, None, None, f"{name}: {reason}")
        for name, each in both.items():
            if (name, present.tobytes()) not in self.resampled:
                found = resampled_spearman(self.draws, rows, each, scores)
                self.resampled[name, present.tobytes()] = found
        one, two = (self.resampled[name, present.tobytes()] for name in both)
        sums = cluster_sums(
            standard_ranks(scores),
            standard_ranks(both[metric]),
            standard_ranks(both[other]),
            _people(rows),
        )
        blocks = self.swaps.masks(*sums.moved.shape[:2])
        swapped = np.concatenate([sums.differences(block) for block in blocks])
        return self._difference(rows, sums.difference(), one - two, swapped)

    def _rates(self, metric: str, other: str) -> tuple[Difference, Difference]:
        signs = [self.signs[name] for name in (metric, other)]
        present = (signs[0] + signs[1]).notna() & (self.asked["preferred"] != 0)
        rows = self.asked[present]
        human = np.where(rows["preferred"] == 1, 1.0, -1.0)
        # 1 where the metric is right, 0 where it ties, -1 where it is wrong; (pairs, 2).
        credit = np.column_stack([each[present].to_numpy(np.float64) * human for each in signs])
        ones, apart = np.ones(credit.shape), np.abs(credit)
        return (
            self._rate(rows, (credit + 1) / 2, ones, "no pair has a preference and all values"),
            self._rate(
                rows, (credit > 0).astype(np.float64), apart, "a metric tells no pair apart"
            ),
        )

    def _rate(
        self,
        rows: pd.DataFrame,
        hits: NDArray[np.float64],
        counts: NDArray[np.float64],
        reason: str,
    ) -> Difference:
        """Compare two shares; hits and counts are (pairs, 2)."""
        if not counts.any(axis=0).all():
            return self._difference(rows, UNDEFINED, None, None, reason)
        observed = shares(hits.sum(axis=0), counts.sum(axis=0))
        drawn = resampled_shares(self.draws, rows, hits, counts)
        swapped = self._swapped(rows, hits, counts)
        return self._difference(
            rows, float(observed[0] - observed[1]), drawn[:, 0] - drawn[:, 1], swapped
        )

    def _swapped(
        self, rows: pd.DataFrame, hits: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The difference of the shares under each permutation, (n_permutations,)."""
        people = _people(rows)
        columns = np.column_stack([hits, counts])
        sums = np.stack([np.bincount(people, weights=column) for column in columns.T], axis=1)
        moved = sums[:, [1, 0, 3, 2]] - sums  # what a participant's swap changes, (people, 4)
        parts = [
            sums.sum(axis=0) + block.astype(np.float64) @ moved
            for block in self.swaps.masks(len(sums))
        ]
        totals = np.concatenate(parts)
        found = shares(totals[:, :2], totals[:, 2:])
        difference: NDArray[np.float64] = found[:, 0] - found[:, 1]
        return difference

    def _difference(
        self,
        rows: pd.DataFrame,
        observed: float,
        drawn: NDArray[np.float64] | None,
        swapped: NDArray[np.float64] | None,
        reason: str | None = None,
    ) -> Difference:
        n_clusters, p = int(rows["participant_id"].nunique()), UNDEFINED
        if drawn is None:
            drawn = np.full(self.draws.n_resamples, np.nan)
        if swapped is not None and n_clusters >= LEAST_PARTICIPANTS:
            p = p_value(observed, swapped)
        elif reason is None:
            reason = "one participant alone gives no test"
        ci = self.draws.interval(drawn, rows)
        return Difference(observed, ci, p, p, len(rows), n_clusters, self.swaps, reason)


def _people(rows: pd.DataFrame) -> NDArray[np.int64]:
    """The participant of each row, counted from 0 in the order of their names."""
    return np.asarray(pd.factorize(rows["participant_id"], sort=True)[0], dtype=np.int64)
