"""ICC(1), the mean of n raters, and the upper bound of a metric's correlation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pingouin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.people.agreement import two_way_variance
from hsfiq.analysis.people.reliability import (
    attenuation_bound,
    icc1,
    log_mean_squares,
    reliability,
    spearman_brown,
    unit_terms,
)
from tests.analysis.studies import few


def simulated(
    rng: np.random.Generator, n_groups: int, n_triplets: int, n_raters: int
) -> pd.DataFrame:
    """Groups of raters, each of which scores two sets of each of its own triplets.

    A score is what the set deserves, the rater's offset and noise, of variances 0.64, 0.16, 0.8.
    """
    size = (n_groups, n_triplets, 2, n_raters)
    group, triplet, place, rater = (axis.ravel() for axis in np.indices(size))
    worth = rng.normal(0, 0.8, size[:3])[group, triplet, place]
    offset = rng.normal(0, 0.4, (n_groups, n_raters))[group, rater]
    return pd.DataFrame(
        {
            "rater": group * n_raters + rater,
            "unit": (group * n_triplets + triplet) * 2 + place,
            "cluster": group * n_triplets + triplet,
            "value": worth + offset + rng.normal(0, math.sqrt(0.8), len(worth)),
        }
    )


TRUE_ICC = 0.64 / (0.64 + 0.16 + 0.8)


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
@pytest.mark.parametrize("n_raters", [2, 3, 5])
def test_equals_pingouin_for_balanced_ratings(n_raters: int) -> None:
    table = simulated(np.random.default_rng(n_raters), 2, 10, n_raters).round()
    renumbered = table.assign(rater=table["rater"] % n_raters)
    theirs = pingouin.intraclass_corr(renumbered, "unit", "rater", "value").set_index("Type")["ICC"]
    result = reliability(table)
    assert result.single.value == pytest.approx(theirs["ICC(1,1)"])
    assert result.means[n_raters - 1].reliability.value == pytest.approx(theirs["ICC(1,k)"])
    ranked = renumbered.assign(value=renumbered["value"].rank())
    of_ranks = pingouin.intraclass_corr(ranked, "unit", "rater", "value").set_index("Type")["ICC"]
    assert result.rho_bound.value == pytest.approx(math.sqrt(of_ranks["ICC(1,1)"]))


def slow_icc1(units: list[list[float]]) -> float:
    """By the sums of squared deviations."""
    values = [value for unit in units for value in unit]
    n, mean = len(values), np.mean(values)
    between = sum(len(unit) * (np.mean(unit) - mean) ** 2 for unit in units) / (len(units) - 1)
    within = sum((value - np.mean(unit)) ** 2 for unit in units for value in unit) / (
        n - len(units)
    )
    size = (n - sum(len(unit) ** 2 for unit in units) / n) / (len(units) - 1)
    return float((between - within) / (between + (size - 1) * within))


@few
@given(st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=4), min_size=10, max_size=14))
def test_equals_the_definition_for_unequal_numbers_of_raters(units: list[list[int]]) -> None:
    rows = [
        (rater, unit, unit // 2, value)
        for unit, values in enumerate(units)
        for rater, value in enumerate(values)
    ]
    table = pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"])
    result = icc1(table)
    if len({value for unit in units for value in unit}) == 1:
        assert result.reason == "all scores are the same"
    else:
        assert result.value == pytest.approx(slow_icc1([[float(v) for v in u] for u in units]))


def test_no_interval_if_all_disagreement_is_about_one_unit() -> None:
    units = [[1, 1, 1], [1, 1, 4], *[[1, 1]] * 8]
    rows = [
        (rater, unit, unit // 2, value)
        for unit, values in enumerate(units)
        for rater, value in enumerate(values)
    ]
    result = icc1(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"]))
    assert result.value == pytest.approx(slow_icc1([[float(v) for v in u] for u in units]))
    assert result.ci is not None
    assert math.isnan(result.ci.low)
    assert result.ci.reason is not None


def test_the_variance_counts_units_that_share_a_triplet_or_a_rater() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        [
            (rater, unit, unit // 3, (unit // 3) ** 2 + float(rng.normal()))
            for unit in range(30)
            for rater in rng.choice(60, int(rng.integers(2, 5)), replace=False)
        ],
        columns=["rater", "unit", "cluster", "value"],
    )
    terms = unit_terms(table)
    total = terms.sum(axis=0)
    influences = log_mean_squares(total[None]) - log_mean_squares(total - terms)
    raters = [set(rows["rater"]) for _, rows in table.groupby("unit")]
    expected = 0.0
    for first in range(30):
        for second in range(30):
            if first // 3 == second // 3 or raters[first] & raters[second]:
                expected += influences[first] * influences[second]
    assert expected > (influences**2).sum()
    assert two_way_variance(table, influences) == pytest.approx(expected)


def test_spearman_brown_and_the_bound() -> None:
    assert spearman_brown(0.5, 3) == pytest.approx(0.75)
    assert spearman_brown(-0.1, 3) == -0.1
    assert attenuation_bound(0.25) == 0.5
    assert attenuation_bound(-0.1) == 0.0
    result = reliability(simulated(np.random.default_rng(0), 1, 300, 5))
    assert [mean.n_raters for mean in result.means] == [1, 2, 3, 4, 5]
    for mean in result.means:
        expected = spearman_brown(result.single.value, mean.n_raters)
        assert mean.reliability.value == pytest.approx(expected)
        assert mean.bound.value == pytest.approx(math.sqrt(expected))
        assert mean.bound.ci is not None
        assert mean.reliability.ci is not None
        assert mean.bound.ci.low == pytest.approx(math.sqrt(mean.reliability.ci.low))


def test_what_sets_deserve_reaches_the_bound_and_no_more() -> None:
    """The correlation of the true worth with single scores, and with the mean of three."""
    rng = np.random.default_rng(1)
    worth = rng.normal(0, 0.8, 4000)
    scores = worth[:, None] + rng.normal(0, math.sqrt(0.96), (4000, 3))
    units = np.repeat(np.arange(4000), 3)
    table = pd.DataFrame(
        {"rater": np.arange(12_000), "unit": units, "cluster": units, "value": scores.ravel()}
    )
    result = reliability(table)
    single = np.corrcoef(worth[units], scores.ravel())[0, 1]
    mean = np.corrcoef(worth, scores.mean(axis=1))[0, 1]
    assert result.means[0].bound.value == pytest.approx(single, abs=0.02)
    assert result.means[2].bound.value == pytest.approx(mean, abs=0.02)


@pytest.mark.parametrize(("rows", "reason"), [
    ([], "nothing has been judged by two people"),
    ([(r, u, u, r + u) for r in (0, 1) for u in range(9)], "only 9 things have been judged"),
    ([(r, u, u, 3) for r in (0, 1) for u in range(10)], "all scores are the same"),
])  # fmt: skip
def test_undefined_is_nan_with_its_reason(rows: list[tuple[int, ...]], reason: str) -> None:
    result = reliability(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"]))
    for estimate in (result.rho_bound, *(each.bound for each in result.means), result.single):
        assert math.isnan(estimate.value)
        assert estimate.reason is not None
        assert estimate.reason.startswith(reason)
        assert estimate.ci is None


@pytest.mark.parametrize(("rows", "reason"), [
    ([(r, u, u, u) for r in range(4) for u in range(10)], "agree completely"),
    ([(r, u, u, r + u) for r in (0, 1) for u in range(10)], "needs 3 triplets and participants"),
])  # fmt: skip
def test_an_undefined_interval_has_a_reason(rows: list[tuple[int, ...]], reason: str) -> None:
    single = reliability(pd.DataFrame(rows, columns=["rater", "unit", "cluster", "value"])).single
    assert not math.isnan(single.value)
    assert single.ci is not None
    assert math.isnan(single.ci.low)
    assert reason in str(single.ci.reason)


@pytest.mark.slow
@pytest.mark.parametrize("design", [(8, 30, 3), (8, 30, 2), (1, 30, 10), (20, 5, 2)])
def test_intervals_contain_the_truth(design: tuple[int, int, int]) -> None:
    """Over 200 studies each; the interval assumes neither that sets nor that people are fixed."""
    covered = 0
    for seed in range(200):
        single = reliability(simulated(np.random.default_rng((seed, *design)), *design)).single
        assert single.ci is not None
        covered += single.ci.low <= TRUE_ICC <= single.ci.high
    assert 0.90 <= covered / 200 <= 0.995
