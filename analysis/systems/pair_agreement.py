"""Whether a metric and people agree on which of two systems is better, over all pairs of systems.

Only direct comparisons count. For two systems, each question adds 1 if the first was preferred, -1
if the second was, and 0 for a tie; according to a metric, the set with the higher value is
preferred. The sum says which system is better (pairwise accuracy: Kocmi et al. 2021, arXiv
2107.10821), and the one-sided p, that the first is, comes from exchanging the two systems: the sum
of what dependent questions add together has its sign flipped at random. That has mean 0 and the sum
of the squares as its variance, so p is taken from the normal distribution instead of from draws.

Soft pairwise accuracy (Thompson et al. 2024, arXiv 2409.09598) is the mean of 1 - |p by people - p
by the metric| over the pairs of systems. Two metrics are compared by exchanging their values for
whole triplets: the values of a metric do not depend on who judged the sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse, stats

from hsfiq.analysis.data.columns import looked_up, metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.json_results import UNDEFINED, FloatArray, JsonRecord
from hsfiq.analysis.resampling.bootstrap import indicator_matrix
from hsfiq.analysis.resampling.intervals import combined_variance
from hsfiq.analysis.resampling.permutation import SWAP_METHODS, Difference, Swaps, adjusted, p_value

SIGNIFICANT = 0.05  # two-sided
MIN_TRIPLETS = 2
MOST_UNITS = 5_000


@dataclass(frozen=True)
class PairAgreement(JsonRecord):
    """The agreement of a metric and people on the better of two systems.

    Attributes:
        accuracy: the share of the pairs of systems that both put in the same order; a tie by only
            one of them counts as half.
        n_pairs: the pairs of systems that were compared directly, with values of the metric.
        accuracy_significant: the same over the `n_significant` pairs whose order according to
            people is significant, two-sided p at most 0.05.
        spa: soft pairwise accuracy over all pairs.
        reason: why figures are NaN.
    """

    accuracy: float
    n_pairs: int
    accuracy_significant: float
    n_significant: int
    spa: float
    reason: str | None = None


@dataclass(frozen=True)
class SpaDifference(JsonRecord):
    """The soft pairwise accuracy of one metric minus that of another, on the same questions.

    Attributes:
        spa: without an interval; its clusters are triplets.
        n_pairs: the pairs of systems.
    """

    metric: str
    other: str
    spa: Difference
    n_pairs: int


@dataclass(frozen=True, eq=False)
class PairSums:
    """The results of the questions about each pair of systems.

    Attributes:
        by_cluster: (n_clusters, n_pairs), wins of the first system minus wins of the second.
        variance: (n_pairs,), of the sums of all clusters if the two systems are equally good.
    """

    by_cluster: sparse.csr_array
    variance: FloatArray

    @property
    def totals(self) -> FloatArray:
        return np.asarray(self.by_cluster.sum(axis=0), dtype=np.float64)

    @property
    def p(self) -> FloatArray:
        """One-sided, that the first system is better, (n_pairs,)."""
        return one_sided_p(self.totals, self.variance)


def pair_agreement(
    rows: pd.DataFrame, values: pd.Series[float], triplets: pd.Series[str]
) -> PairAgreement:
    """Compare a metric with people on questions with `first`, `second` and `preferred`.

    `triplets` has the triplet of each query.
    """
    difference = _differences(rows, values)
    present = ~np.isnan(difference)
    if not present.any():
        reason = "no question compares two systems and has both values of the metric"
        return PairAgreement(UNDEFINED, 0, UNDEFINED, 0, UNDEFINED, reason)
    rows = rows[present]
    people = sums_of_people(rows, triplets)
    metric = sums_of_metric(rows, difference[present], triplets)
    same = 1 - np.abs(np.sign(people.totals) - np.sign(metric.totals)) / 2
    is_significant = np.abs(people.p - 0.5) >= 0.5 - SIGNIFICANT / 2
    has_significant = bool(is_significant.any())
    return PairAgreement(
        accuracy=float(same.mean()),
        n_pairs=len(same),
        accuracy_significant=float(same[is_significant].mean()) if has_significant else UNDEFINED,
        n_significant=int(is_significant.sum()),
        spa=float(soft_accuracy(people.p, metric.p)),
        reason=None if has_significant else "no pair of systems differs significantly by people",
    )


def compare_spa(
    rows: pd.DataFrame, values: MetricValues, triplets: pd.Series[str], swaps: Swaps
) -> list[SpaDifference]:
    """Compare the soft pairwise accuracy of every two metrics, with Holm's adjustment."""
    differences = {name: _differences(rows, each) for name, each in values.items()}
    pairs = list(combinations(values, 2))
    tests = [_spa_difference(rows, differences, *pair, triplets, swaps) for pair in pairs]
    differ = adjusted([difference for difference, _ in tests])
    return [
        SpaDifference(*pair, difference, n_pairs)
        for pair, difference, (_, n_pairs) in zip(pairs, differ, tests, strict=True)
    ]


def sums_of_people(rows: pd.DataFrame, triplets: pd.Series[str]) -> PairSums:
    """According to the preferences, whose answers depend within participants and triplets."""
    signs = np.choose(rows["preferred"].to_numpy(), (0.0, 1.0, -1.0))
    person, triplet = _codes(rows["participant_id"]), _codes(looked_up(rows["query_id"], triplets))
    by_person = _sums(rows, signs, person)
    of_triplets = _squares(_sums(rows, signs, triplet))
    # Numbered anew: a row for each participant and triplet there could be would not fit in memory.
    both = _squares(_sums(rows, signs, _codes(person * (int(triplet.max()) + 1) + triplet)))
    return PairSums(by_person, combined_variance(_squares(by_person), of_triplets, both))


def sums_of_metric(
    rows: pd.DataFrame, difference: FloatArray, triplets: pd.Series[str]
) -> PairSums:
    """According to a metric, whose values depend within triplets."""
    by_triplet = _sums(rows, np.sign(difference), _codes(looked_up(rows["query_id"], triplets)))
    return PairSums(by_triplet, _squares(by_triplet))


def one_sided_p(totals: FloatArray, variance: FloatArray) -> FloatArray:
    """P(a sum under the null hypothesis is larger); 0.5 if there are only ties."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p: FloatArray = stats.norm.sf(totals / np.sqrt(variance))
    return np.where(variance > 0, p, 0.5)


def soft_accuracy(people: FloatArray, metric: FloatArray) -> FloatArray:
    """From the p of all pairs of systems, (..., n_pairs)."""
    return np.asarray(1 - np.abs(people - metric).mean(axis=-1))


def _spa_difference(
    rows: pd.DataFrame,
    differences: dict[str, FloatArray],
    metric: str,
    other: str,
    triplets: pd.Series[str],
    swaps: Swaps,
) -> tuple[Difference, int]:
    """The difference, and the number of pairs of systems."""
    present = ~np.isnan(differences[metric] + differences[other])
    rows = rows[present]
    n_triplets = int(looked_up(rows["query_id"], triplets).nunique())
    if n_triplets < MIN_TRIPLETS:
        reason = f"a test needs {MIN_TRIPLETS} triplets with values of both metrics"
        reason = f"{reason}; there {_count(n_triplets)}"
        nan = UNDEFINED
        return Difference(nan, nan, nan, "none", len(rows), n_triplets, reason=reason), 0
    people = sums_of_people(rows, triplets).p
    first, second = (
        sums_of_metric(rows, differences[name][present], triplets) for name in (metric, other)
    )
    gap = soft_accuracy(people, first.p) - soft_accuracy(people, second.p)
    units = swapped_together(n_triplets, swaps.seed)
    moved = units @ (second.by_cluster - first.by_cluster)
    spread = units @ (second.by_cluster.power(2) - first.by_cluster.power(2))
    permuted = []
    for masks in swaps.masks(units.shape[0]):
        swapped = masks.astype(np.float64)
        totals, variance = swapped @ moved, swapped @ spread
        p_first = one_sided_p(first.totals + totals, first.variance + variance)
        p_second = one_sided_p(second.totals - totals, second.variance - variance)
        permuted.append(soft_accuracy(people, p_first) - soft_accuracy(people, p_second))
    difference = Difference(
        difference=float(gap),
        p=p_value(float(gap), np.concatenate(permuted)),
        p_holm=UNDEFINED,
        p_method=SWAP_METHODS["triplet"],
        n=len(rows),
        n_clusters=n_triplets,
        swaps=swaps,
    )
    return difference, len(people)


def _differences(rows: pd.DataFrame, values: pd.Series[float]) -> FloatArray:
    return np.asarray(metric_difference(rows, values), dtype=np.float64)


def swapped_together(n_triplets: int, seed: int) -> sparse.csr_array:
    """Which triplets are swapped together, (n_units, n_triplets): each alone, if they are few.

    Of more than MOST_UNITS, drawn groups are swapped, which is as valid and needs less memory.
    """
    unit = np.arange(n_triplets)
    if n_triplets > MOST_UNITS:
        unit = np.random.default_rng((seed, 1)).permutation(n_triplets) % MOST_UNITS
    return indicator_matrix(unit, int(unit.max()) + 1).T.tocsr()


def _sums(rows: pd.DataFrame, signs: FloatArray, codes: NDArray[np.intp]) -> sparse.csr_array:
    """Sum (n,) signs of the set shown first by cluster and pair of systems."""
    first, second = rows["first"].to_numpy(np.intp), rows["second"].to_numpy(np.intp)
    low, high = np.minimum(first, second), np.maximum(first, second)
    pair = np.unique(low * (high.max() + 1) + high, return_inverse=True)[1]
    oriented = np.where(first == low, signs, -signs)
    shape = (int(codes.max()) + 1, int(pair.max()) + 1)
    return sparse.coo_array((oriented, (codes, pair)), shape=shape).tocsr()


def _squares(by_cluster: sparse.csr_array) -> FloatArray:
    return np.asarray(by_cluster.power(2).sum(axis=0), dtype=np.float64)


def _codes(ids: pd.Series[str] | NDArray[np.intp]) -> NDArray[np.intp]:
    return np.asarray(pd.factorize(ids)[0], dtype=np.intp)


def _count(n: int) -> str:
    return "is 1" if n == 1 else "is none"
