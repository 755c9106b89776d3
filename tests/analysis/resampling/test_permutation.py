from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pingouin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.resampling.permutation import (
    PairedSums,
    Swaps,
    cell_sums,
    grouped_test,
    holm,
    p_value,
    standard_ranks,
    unit_sums,
)
from tests.analysis.studies import few

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

tables = st.tuples(st.integers(1, 4), st.integers(2, 5)).flatmap(
    lambda shape: st.tuples(
        *[
            st.lists(
                st.lists(st.integers(0, 3), min_size=shape[1], max_size=shape[1]),
                min_size=shape[0],
                max_size=shape[0],
            ).map(lambda rows: np.array(rows, dtype=np.float64))
        ]
        * 3
    )
)


def correlation(metric_a: Sequence[float], metric_b: Sequence[float]) -> float:
    """Pearson's correlation by its definition; NaN if one side is constant."""
    sides = (metric_a, metric_b)
    x, y = ([value - math.fsum(side) / len(side) for value in side] for side in sides)
    spread = math.fsum(a * a for a in x) * math.fsum(b * b for b in y)
    product = math.fsum(a * b for a, b in zip(x, y, strict=True))
    return product / math.sqrt(spread) if spread > 1e-20 else math.nan


def swapped_difference(scores: Floats, first: Floats, second: Floats, mask: Floats) -> float:
    """One permutation as a loop: swap the cells, correlate row by row, average."""
    differences = []
    for human, metric_a, metric_b, swap in zip(scores, first, second, mask, strict=True):
        ours, theirs = np.where(swap, metric_b, metric_a), np.where(swap, metric_a, metric_b)
        differences.append(correlation(human, ours) - correlation(human, theirs))
    defined = [value for value in differences if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


def usable(drawn: tuple[Floats, Floats, Floats]) -> list[Floats]:
    """The rows in which all three tables have two values, as standardized ranks."""
    kept = [row for row in range(len(drawn[0])) if all(len(set(t[row])) > 1 for t in drawn)]
    return [standard_ranks(table[kept]) for table in drawn] if kept else []


@few
@given(tables, st.integers(0, 5))
def test_swapping_cells_equals_the_loop(drawn: tuple[Floats, Floats, Floats], seed: int) -> None:
    ranks = usable(drawn)
    if not ranks:
        assert grouped_test(*drawn, Swaps(5)).reason is not None
        return
    masks = np.concatenate(list(Swaps(20, seed).masks(*ranks[0].shape)))
    expected = [swapped_difference(*ranks, mask) for mask in masks]
    # Swaps may leave a row all but constant, where sums of squares lose digits that the loop keeps.
    assert cell_sums(*ranks).differences(masks) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@few
@given(tables)
def test_the_difference_equals_scipys_correlations(drawn: tuple[Floats, Floats, Floats]) -> None:
    result = grouped_test(*drawn, Swaps(9))
    gaps = [
        stats.pearsonr(human, metric_a).statistic - stats.pearsonr(human, metric_b).statistic
        for human, metric_a, metric_b in zip(*usable(drawn), strict=True)
    ]
    assert result.n_groups == len(gaps)
    assert result.difference == pytest.approx(np.mean(gaps) if gaps else math.nan, nan_ok=True)
    assert (result.reason is None) == bool(gaps)


@few
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 4), min_size=3, max_size=15), st.integers(0, 5))
def test_swapping_clusters_swaps_rows(rows: list[tuple[int, int, int, int]], seed: int) -> None:
    scores, first, second, names = np.array(rows, dtype=np.float64).T
    if min(len(set(side)) for side in (scores, first, second)) == 1:
        return
    clusters = np.unique(names, return_inverse=True)[1]
    ranks = [standard_ranks(side) for side in (scores, first, second)]
    of_units = (unit_sums(ranks[0], each, clusters) for each in ranks[1:])
    sums = PairedSums.of_units(*of_units, len(rows))
    masks = np.concatenate(list(Swaps(20, seed).masks(1, clusters.max() + 1)))
    expected = [
        swapped_difference(*(side[None] for side in ranks), mask[:, clusters]) for mask in masks
    ]
    assert sums.differences(masks) == pytest.approx(expected, abs=1e-9, nan_ok=True)
    gap = stats.spearmanr(scores, first).statistic - stats.spearmanr(scores, second).statistic
    assert sums.difference() == pytest.approx(gap)


def test_all_permutations_give_scipys_p() -> None:
    rng = np.random.default_rng(2)
    human, metric_a, metric_b = (standard_ranks(rng.normal(size=(1, 8))) for _ in range(3))

    def statistic(x: Floats, y: Floats) -> float:
        return float(stats.pearsonr(human[0], x)[0] - stats.pearsonr(human[0], y)[0])

    oracle = stats.permutation_test(
        (metric_a[0], metric_b[0]), statistic, permutation_type="samples", n_resamples=np.inf
    )
    masks = np.array(list(itertools.product([False, True], repeat=8)))[:, None, :]
    drawn = cell_sums(human, metric_a, metric_b).differences(masks)
    assert sorted(drawn) == pytest.approx(sorted(oracle.null_distribution), abs=1e-12)
    exact = np.mean(np.abs(oracle.null_distribution) >= abs(oracle.statistic) - 1e-12)
    result = grouped_test(human, metric_a, metric_b, Swaps(20_000, seed=4))
    assert result.difference == pytest.approx(oracle.statistic)
    assert result.p == pytest.approx(exact, abs=0.02)


def test_swaps_are_reproducible_and_balanced() -> None:
    swaps = Swaps(3000, seed=5)
    first, second = (np.concatenate(list(swaps.masks(40, 10))) for _ in range(2))
    assert first.shape == (3000, 40, 10)
    assert (first == second).all()
    assert len(list(swaps.masks(40, 10))) > 1
    assert first.mean() == pytest.approx(0.5, abs=0.002)
    assert not (first == np.concatenate(list(Swaps(3000, seed=6).masks(40, 10)))).all()


def test_an_impossible_test_has_a_reason() -> None:
    three, metric_a = np.arange(12.0).reshape(4, 3), np.ones((4, 3))
    for test in (
        grouped_test(*[np.zeros((0, 3))] * 3),
        grouped_test(*[np.zeros((4, 1))] * 3),
        grouped_test(three, three, metric_a),
        grouped_test(metric_a, three, three),
    ):
        written = json.loads(json.dumps(test.to_json(), allow_nan=False))
        assert (written["difference"], written["p"], written["n_groups"]) == (None, None, 0)
        assert written["reason"]
    equal = grouped_test(three, three, three)
    assert (equal.difference, equal.p, equal.reason) == (0.0, 1.0, None)
    assert "reason" not in equal.to_json()


def test_p_counts_equal_and_undefined_permutations() -> None:
    drawn = np.array([0.5, -0.5, 0.5 - 1e-14, 0.1, math.nan])
    assert p_value(0.5, drawn) == p_value(-0.5, drawn) == 5 / 6
    assert p_value(0.6, drawn) == 2 / 6


@few
@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=8))
def test_holm_equals_pingouin(p_values: list[float]) -> None:
    adjusted = holm(np.array(p_values))
    if all(map(math.isnan, p_values)):
        assert np.isnan(adjusted).all()
    else:
        expected = pingouin.multicomp(p_values, method="holm")[1]
        assert adjusted == pytest.approx(np.minimum(expected, 1.0), nan_ok=True)
