"""The benchmark `permutation` on few queries: both methods give the same figures."""

from __future__ import annotations

import numpy as np

from benchmarks import permutation
from hsfiq.analysis.resampling.permutation import cell_sums, standard_ranks


def test_both_methods_give_the_same_figures() -> None:
    result = permutation.compare(seed=3, queries=12, permutations=40, part=15)
    assert result["equal"]
    assert result["theirs_measured_on"] == 15
    assert result["ratio"] == result["cases"][0]["ratio"]
    assert len(result["cases"]) == 2


def test_other_swaps_are_not_equal() -> None:
    rng = np.random.default_rng(1)
    tables = [standard_ranks(table) for table in permutation.draw(rng, 12)]
    masks, other_masks = rng.integers(2, size=(2, 6, 12, permutation.SYSTEMS), dtype=np.bool_)
    correlate = permutation.LOOPS["numpy.corrcoef"]
    observed = permutation.mean_difference(*tables, correlate)
    drawn = permutation.loop(*tables, masks, correlate)
    assert permutation.equal(cell_sums(*tables), masks, observed, drawn)
    assert not permutation.equal(cell_sums(*tables), other_masks, observed, drawn)
