from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.resampling import spearman
from hsfiq.analysis.resampling.bootstrap import UNITS, Bootstrap, Unit
from hsfiq.analysis.resampling.ranks import as_numbers, mid_ranks, rank_correlation, value_numbers
from hsfiq.analysis.resampling.spearman import (
    BinnedPair,
    ClusteredPair,
    CumulativeRanks,
    SortedPair,
    bins_for,
    is_worth_binning,
    leave_one_out_spearman,
    resampled_spearman,
)
from tests.analysis.studies import few

N_RESAMPLES = 25


def literal(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> list[float]:
    """Spearman's rho by scipy, with each resample's rows repeated."""
    result = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        for row in weights.astype(int):
            repeated_x, repeated_y = np.repeat(x, row), np.repeat(y, row)
            is_defined = len(repeated_x) > 1
            rho = stats.spearmanr(repeated_x, repeated_y).statistic if is_defined else np.nan
            result.append(float(rho))
    return result


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Rows of at most 4 participants and 5 queries, with two variables that have ties."""
    n = draw(st.integers(2, 30))
    distinct = draw(st.sampled_from([1, 2, 4, 40]))
    levels = draw(st.sampled_from([1, 2, 5, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number}" for number in rng.integers(4, size=n)],
            "query_id": [f"q{number}" for number in rng.integers(5, size=n)],
        }
    )
    return rows, rng.integers(distinct, size=n) / 7, rng.integers(levels, size=n) * 1.5


@few
@given(tables(), st.sampled_from(UNITS), st.sampled_from([0, 16]), st.sampled_from([0, 1]))
def test_every_method_equals_scipy_on_repeated_rows(
    table: tuple[pd.DataFrame, np.ndarray, np.ndarray], unit: Unit, worth: int, few_cells: int
) -> None:
    rows, x, y = table
    bootstrap = Bootstrap.of_rows(rows, unit=unit, n_resamples=N_RESAMPLES)
    order = np.arange(len(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spearman, "MAX_TERMS", 10 * worth)
        patch.setattr(spearman, "FEW_CELLS", few_cells)
        for name, size in (("SEGMENTS", 2), ("STEPS", 3)):
            patch.setattr(spearman, name, size)
        result = resampled_spearman(bootstrap, rows, x, y)
        if unit == "row" and few_cells == 0:
            # Single rows are drawn by their place among those of rising x.
            x_has_fewer_values = len(np.unique(x)) < len(np.unique(y))
            order = np.argsort(y if x_has_fewer_values else x, kind="stable")
    weights = np.concatenate(list(bootstrap.weights(rows)))
    expected = literal(x[order], y[order], weights)
    assert result == pytest.approx(expected, abs=1e-12, nan_ok=True)


@few
@given(tables())
def test_equal_weights_give_plain_rho(table: tuple[pd.DataFrame, np.ndarray, np.ndarray]) -> None:
    rows, x, y = table
    expected = literal(x, y, np.ones((1, len(rows))))
    pair = SortedPair.of(x, y)
    assert pair.rho(np.ones((1, len(rows)))) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    codes, names = pd.factorize(rows["participant_id"])
    form = ClusteredPair.of(x, y, codes, len(names) + 1)
    ones = np.ones((1, len(names) + 1))
    assert form.rho(ones) == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert form.rho(3 * ones) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("n_values", [25_000, 4_000])
def test_cumulative_ranks_take_whole_parts_and_the_rest(n_values: int) -> None:
    rng = np.random.default_rng(8)
    n, n_clusters = 25_000, 40
    run, codes = rng.permutation(n) * n_values // n, rng.integers(n_clusters, size=n)
    level = rng.integers(3, size=n)
    ranks = CumulativeRanks.of(run, level, codes, n_clusters)
    counts = rng.integers(4, size=(3, n_clusters)).astype(np.float64)
    ranks_y = rng.integers(9, size=(3, 3)).astype(np.float64)
    products = ranks.product(counts, ranks_y)
    for row, own, product in zip(counts, ranks_y, products, strict=True):
        drawn = row[codes]
        of_run = np.bincount(run, drawn)
        below = np.cumsum(of_run) - of_run
        numbers = (2 * below + of_run - drawn.sum())[run]
        assert product == (drawn * numbers * own[level]).sum()


def test_cumulative_ranks_do_not_overflow_if_one_cluster_has_all_draws() -> None:
    n_clusters = 100_000
    run, codes = np.arange(2 * n_clusters), np.tile(np.arange(n_clusters), 2)
    counts = np.zeros((1, n_clusters))
    counts[0, 0] = n_clusters
    ranks = CumulativeRanks.of(run, run // n_clusters, codes, n_clusters)
    # Both rows of the cluster are drawn so often; each has only the other one above or below it.
    product = ranks.product(counts, np.array([[1.0, 3.0]]))
    assert product.tolist() == [n_clusters * n_clusters * (3.0 - 1.0)]


@pytest.mark.parametrize("tolerance", [1e-3, 1e-4])
@pytest.mark.parametrize("distinct", [10**9, 300])
def test_bins_come_as_close_as_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, tolerance: float, distinct: int
) -> None:
    rng = np.random.default_rng(9)
    n, n_clusters = 4000, 50
    codes, y = rng.integers(n_clusters, size=n), rng.integers(5, size=n)
    x = rng.integers(distinct, size=n) + y * distinct / 4
    run = value_numbers(x)
    monkeypatch.setattr(spearman, "TOLERANCE", tolerance)
    assert bins_for(n) < len(x)
    counts = rng.multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=20)
    pair = BinnedPair.of(run, y, codes, n_clusters, rank_correlation(run, y))
    expected = literal(x, y, counts.take(codes, axis=1))
    errors = pair.rho(counts.astype(np.float64)) - expected
    assert np.abs(errors).max() < 3 * tolerance
    assert pair.rho(np.ones((1, n_clusters))) == pytest.approx(
        literal(x, y, np.ones((1, n))), abs=1e-12
    )


def test_many_rows_of_many_clusters_are_binned() -> None:
    assert is_worth_binning(600_000, n_levels=5, n_clusters=6000)
    assert not is_worth_binning(60_000, n_levels=500, n_clusters=600)
    assert not is_worth_binning(6100, n_levels=5, n_clusters=61)


@few
@given(st.lists(st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0, 1e9]), max_size=12))
def test_values_are_numbered_as_by_sorting(values: list[float]) -> None:
    for given_values in (np.array(values), np.array(values).round()):
        numbers = value_numbers(given_values)
        assert numbers.tolist() == [sorted(set(given_values)).index(each) for each in given_values]
        assert mid_ranks(numbers).tolist() == stats.rankdata(given_values).tolist()


@few
@given(tables())
def test_leaving_out_each_cluster_equals_scipy_without_its_rows(
    table: tuple[pd.DataFrame, np.ndarray, np.ndarray],
) -> None:
    rows, x, y = table
    codes, names = pd.factorize(rows["participant_id"])
    weights = np.array([codes != cluster for cluster in range(len(names) + 1)])
    expected = literal(x, y, weights)
    result = leave_one_out_spearman(x, y, codes, len(names) + 1)
    assert result == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_the_same_rho_is_resampled_once() -> None:
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"participant_id": [f"p{number}" for number in rng.integers(9, size=50)]})
    x, y = rng.normal(size=50), rng.integers(1, 6, size=50).astype(float)
    bootstrap = Bootstrap.of_rows(rows, unit="participant", n_resamples=10)
    first = resampled_spearman(bootstrap, rows, x, y)
    assert resampled_spearman(bootstrap, rows.copy(), x.copy(), y) is first
    other = rows.assign(participant_id=rows["participant_id"].to_numpy()[::-1])
    assert resampled_spearman(bootstrap, other, x, y) is not first


def test_rho_without_rows_is_undefined() -> None:
    rows = pd.DataFrame({"participant_id": [], "query_id": []})
    empty = np.zeros(0)
    for unit in UNITS:
        bootstrap = Bootstrap.of_rows(rows, unit=unit, n_resamples=5)
        assert np.isnan(resampled_spearman(bootstrap, rows, empty, empty)).all()


def test_values_as_numbers_keep_their_order_and_gaps() -> None:
    values = pd.Series([0.5, np.nan, -1.0, 0.5, 7.0], index=list("abcde"))
    expected = pd.Series([1.0, np.nan, 0.0, 1.0, 2.0], index=list("abcde"))
    pd.testing.assert_series_equal(as_numbers(values), expected)
