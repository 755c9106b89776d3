"""Paired permutation tests: whether two metrics correlate with people equally well.

If they do, exchanging values between the two metrics has no effect in expectation. So swaps are
drawn at random, and the observed difference of the two correlations is compared with the
differences under the swaps (PERM-BOTH of Deutsch et al. 2021, arXiv 2104.00054, which swaps cell
by cell). Standardized mid-ranks are swapped, or the scale of a metric would matter. They are
ranked over all groups at once: ranks within a group depend on each other, and swapping them one
by one would find differences where there are none. A unit is swapped as a whole: one cell of a
table, or all sets of a participant.

A correlation is computed from three sums to which every unit adds its own part. So a permutation
needs no ranking and no correlation, only a product of its swaps with each unit's contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.json_results import UNDEFINED, BoolArray, FloatArray, JsonRecord, json_number
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit, ratio
from hsfiq.analysis.resampling.intervals import ConfidenceInterval, student_p, with_interval
from hsfiq.analysis.resampling.ranks import mid_ranks, value_numbers

PERMUTATIONS = 9_999
BLOCK_SIZE = 2**20  # units held in memory at once
ROUNDING = 1e-12  # smaller differences are rounding errors
CONSTANT = 1e-13  # smaller variation, relative to the sum of squares, is rounding error
MIN_CELLS = 2  # for the correlation within a group


@dataclass(frozen=True)
class Swaps:
    """Which units are swapped, each with probability 1/2; every call of `masks` gives the same."""

    n: int = PERMUTATIONS
    seed: int = 0

    def masks(self, *units: int) -> Iterator[BoolArray]:
        """Yield blocks (b, *units) of the n permutations, true where a unit is swapped."""
        rng = np.random.default_rng(self.seed)
        block_length = max(1, BLOCK_SIZE // max(1, int(np.prod(units))))
        for start in range(0, self.n, block_length):
            size = (min(block_length, self.n - start), *units)
            yield rng.integers(2, size=size, dtype=np.bool_)


@dataclass(frozen=True)
class GroupedTest(JsonRecord):
    """The difference of two metrics' rank correlations within groups, averaged over the groups.

    Attributes:
        p: two-sided, (b + 1) / (B + 1).
        n_groups: the number of groups with two different scores and two different values of each
            metric; the others are excluded.
    """

    difference: float
    p: float
    n_groups: int
    n_permutations: int
    seed: int
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class PairedSums:
    """The sums from which two metrics' correlations with the scores are computed, by group.

    The three sums are of score x value, of the values, and of their squares, with scores centred
    and of norm 1 within the group.

    Attributes:
        first, second: (groups, 3), the sums of each metric.
        moved: (groups, units, 3), the gain of the first and loss of the second by a unit's swap.
        sizes: (groups,), the number of values.
    """

    first: FloatArray
    second: FloatArray
    moved: FloatArray
    sizes: NDArray[np.int64]

    @classmethod
    def of_units(cls, first: FloatArray, second: FloatArray, n: int) -> PairedSums:
        """Of one group of n rows, from the `unit_sums` of two metrics of the same scale."""
        return cls(
            first=first.sum(axis=0)[None],
            second=second.sum(axis=0)[None],
            moved=(second - first)[None],
            sizes=np.array([n]),
        )

    def difference(self) -> float:
        return float(self.differences(np.zeros((1, *self.moved.shape[:2]), dtype=np.bool_))[0])

    def differences(self, masks: BoolArray) -> FloatArray:
        """The differences, (b,), under swaps: (b, groups, units), true where a unit is swapped.

        Means over the groups; a group in which the swaps leave a metric constant is excluded, and
        the mean of no group is NaN.
        """
        swapped = masks.transpose(1, 0, 2).astype(np.float64) @ self.moved  # (groups, b, 3)
        gap = self._correlations(self.first[:, None] + swapped)
        gap -= self._correlations(self.second[:, None] - swapped)
        defined = ~np.isnan(gap)
        return ratio(np.where(defined, gap, 0.0).sum(axis=0), defined.sum(axis=0))

    def _correlations(self, sums: FloatArray) -> FloatArray:
        spread = sums[..., 2] - sums[..., 1] ** 2 / self.sizes[:, None]
        spread[spread <= CONSTANT * sums[..., 2]] = np.nan
        return np.asarray(sums[..., 0] / np.sqrt(spread))


def standard_ranks(values: FloatArray) -> FloatArray:
    """Rank all values of an array, ties by mid-ranks, and scale to mean 0 and variance 1.

    The values must be finite and not all equal.
    """
    ranks = mid_ranks(value_numbers(values.ravel())).reshape(values.shape) - (values.size + 1) / 2
    return np.asarray(ranks / ranks.std())


def cell_sums(scores: FloatArray, first: FloatArray, second: FloatArray) -> PairedSums:
    """Sum up tables (groups, cells) whose cells are swapped one by one; each row is a group.

    No row of the scores may be constant; the metrics have the same scale.
    """
    parts_1, parts_2 = (_parts(scores, values) for values in (first, second))
    sizes = np.full(len(scores), scores.shape[1], dtype=np.int64)
    return PairedSums(parts_1.sum(axis=1), parts_2.sum(axis=1), parts_2 - parts_1, sizes)


def unit_sums(scores: FloatArray, values: FloatArray, units: NDArray[np.intp]) -> FloatArray:
    """Each unit's contribution to the sums of one metric, (units, 3), of (n,) rows as one group.

    The scores may not be constant. `units` are numbered from 0.
    """
    return np.stack([np.bincount(units, part) for part in _parts(scores, values).T], axis=1)


def _parts(scores: FloatArray, values: FloatArray) -> FloatArray:
    """Each value's contribution to the three sums of its group, the last axis, (..., 3)."""
    centred = scores - scores.mean(axis=-1, keepdims=True)
    centred /= np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    return np.stack([centred * values, values, values**2], axis=-1)


def grouped_test(
    scores: FloatArray, first: FloatArray, second: FloatArray, swaps: Swaps | None = None
) -> GroupedTest:
    """Compare two metrics within groups, such as the sets of one query by several systems.

    Human scores and metrics, each (groups, cells), are ranked over the whole table, cells are
    swapped, and the ranks are correlated within each group. By default there are 9,999
    permutations.

    Returns:
        The difference and its p; both NaN, with a reason, if no group has two different scores
        and two different values of each metric.
    """
    swaps = swaps or Swaps()
    undefined = GroupedTest(UNDEFINED, UNDEFINED, 0, swaps.n, swaps.seed)
    if scores.shape[0] == 0 or scores.shape[1] < MIN_CELLS:
        return replace(undefined, reason=f"no group has {MIN_CELLS} cells")
    kept = np.all([np.ptp(table, axis=1) > 0 for table in (scores, first, second)], axis=0)
    if not kept.any():
        reason = "in every group the scores or a metric's values are all equal"
        return replace(undefined, reason=reason)
    ranks = [standard_ranks(table[kept]) for table in (scores, first, second)]
    sums = cell_sums(*ranks)
    permuted = [sums.differences(block) for block in swaps.masks(*ranks[0].shape)]
    difference = sums.difference()
    return replace(
        undefined,
        difference=difference,
        p=p_value(difference, np.concatenate(permuted)),
        n_groups=int(kept.sum()),
    )


def p_value(observed: float, permuted: FloatArray) -> float:
    """The share of permutations that are at least as extreme as the observed difference.

    Two-sided, (b + 1) / (B + 1), so that it is never 0 (Phipson and Smyth 2010). A NaN among the
    (B,) permuted differences counts as extreme.
    """
    smaller = np.abs(permuted) < abs(observed) - ROUNDING
    return float((~smaller).sum() + 1) / (len(permuted) + 1)


def holm(p_values: FloatArray) -> FloatArray:
    """Adjust (n,) p-values for their number (Holm 1979); NaN stays NaN and does not count."""
    adjusted = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)[: np.count_nonzero(~np.isnan(p_values))]  # NaN comes last
    stepwise = p_values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepwise), 1.0)
    return adjusted


# The difference of a statistic between two metrics: its interval, its test, Holm's adjustment.
#
# The interval is paired: both metrics are measured on the same rows. If participants are
# resampled, the test exchanges the two metrics for whole participants, because one person's answers
# depend on each other: under the null hypothesis that they agree equally well, it does not matter
# by which of them a participant was measured. To first order this flips the sign of each
# participant's contribution to the difference, so the test is valid even if a metric fits some
# participants better than others. For few participants it has little power: with n of them no p is
# below 2 / 2^n.
#
# If several participants judged the same triplets, no exchange of whole participants or of whole
# triplets leaves the answers as likely as before. Then p comes from Student's t with the two-way
# variance of the difference, as the interval does.

MIN_CLUSTERS = 2
SWAP_METHODS: dict[Unit, str] = {
    "participant": "paired permutation, metrics exchanged for whole participants",
    "triplet": "paired permutation, metrics exchanged for whole triplets",
    "row": "paired permutation, metrics exchanged for single rows",
}


@dataclass(frozen=True)
class Difference(JsonRecord):
    """A statistic of one metric minus that of another.

    Attributes:
        p: of no difference, two-sided.
        p_holm: p adjusted for all tests of its family (Holm 1979).
        p_method: how p was computed.
        n: the number of rows with both metrics: sets, pairs or queries.
        n_clusters: the number of clusters that they come from.
        ci: its interval, paired; None if nothing was resampled.
        swaps: the permutations; None if p comes from Student's t.
        reason: why difference or p is NaN.
    """

    difference: float
    p: float
    p_holm: float
    p_method: str
    n: int
    n_clusters: int
    ci: ConfidenceInterval | None = None
    swaps: Swaps | None = None
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


def undefined_difference(bootstrap: Bootstrap, rows: pd.DataFrame, reason: str) -> Difference:
    n_clusters, ci = bootstrap.n_clusters_of(rows), bootstrap.undefined_interval(rows)
    nan = UNDEFINED
    return Difference(nan, nan, nan, "none", len(rows), n_clusters, ci, reason=reason)


def tested_difference(
    bootstrap: Bootstrap,
    rows: pd.DataFrame,
    resampled: FloatArray,
    permuted: Callable[[], FloatArray] | None,
    swaps: Swaps,
    errors: FloatArray | None,
) -> Difference:
    """The difference with its interval and p.

    Args:
        resampled: (length,) the difference of the rows, then of each resample; with `errors`, the
            first is enough.
        errors: (n,) of a difference of means, what each row adds to its error.
        permuted: computes (n_permutations,) the difference with the metrics exchanged for
            `swapped_units` by `swaps`; called only if p comes from permutations. None if no row
            belongs to one unit alone: then p comes from Student's t.
    """
    n_clusters = bootstrap.n_clusters_of(rows)
    observed = float(resampled[0])
    if errors is None:
        spread, ci = bootstrap.spread(resampled, rows), bootstrap.interval(resampled, rows)
    else:
        spread = bootstrap.mean_spread(rows, errors)
        ci = bootstrap.mean_interval(observed, rows, errors)
    difference = Difference(
        difference=observed,
        p=UNDEFINED,
        p_holm=UNDEFINED,
        p_method="none",
        n=len(rows),
        n_clusters=n_clusters,
        ci=ci,
    )
    if n_clusters < MIN_CLUSTERS:
        return replace(difference, reason=f"a test needs more than one {bootstrap.unit}")
    if permuted is not None and len(bootstrap.parts) == 1:
        p = p_value(difference.difference, permuted())
        return replace(difference, p=p, p_method=SWAP_METHODS[bootstrap.unit], swaps=swaps)
    p = student_p(observed, spread)
    reason = "no cluster changes the difference" if np.isnan(p) else None
    return replace(difference, p=p, p_method=ci.method, reason=reason)


def swapped_units(bootstrap: Bootstrap, rows: pd.DataFrame) -> NDArray[np.intp]:
    """The unit of each row for which metrics are exchanged: the resampled unit, numbered from 0."""
    return value_numbers(bootstrap.parts[0].codes(rows))


def adjusted(family: Sequence[Difference]) -> list[Difference]:
    """Adjust the p of tests that are made together (Holm 1979)."""
    p_values = holm(np.array([each.p for each in family], dtype=np.float64))
    return [replace(each, p_holm=float(p)) for each, p in zip(family, p_values, strict=True)]
