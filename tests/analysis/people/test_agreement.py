from __future__ import annotations

import math
from collections import defaultdict
from functools import cache, partial
from itertools import permutations

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hsfiq.analysis.data.columns import set_units
from hsfiq.analysis.people.agreement import (
    Agreement,
    Level,
    agreement,
)
from hsfiq.analysis.statistics.preference import exact_proportion
from tests.analysis.studies import few

COLUMNS = ["rater", "unit", "cluster", "value"]
LEVELS: tuple[Level, Level] = ("nominal", "ordinal")

judgements = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 7)), st.integers(1, 5), max_size=40
)
"""{(rater, unit): value}; two units make a cluster."""


@few
@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.lists(st.sampled_from("abc"), max_size=3))),
)
def test_units_are_the_different_lists_of_a_triplet(shown: list[tuple[str, list[str]]]) -> None:
    sets = pd.DataFrame(
        {
            "set_id": [f"set {place}" for place in range(len(shown))],
            "query_id": [query for query, _ in shown],
            "image_ids": [images for _, images in shown],
        }
    )
    triplets = pd.Series({"x": "t1", "y": "t1", "z": "t2"})
    keys = [(triplets[query], tuple(images)) for query, images in shown]
    expected = [list(dict.fromkeys(keys)).index(key) for key in keys]
    units = set_units(sets, triplets)
    assert units.tolist() == expected
    assert units.index.tolist() == sets["set_id"].tolist()


def frame(rows: dict[tuple[int, int], int]) -> pd.DataFrame:
    flat = [(f"p{rater}", unit, unit // 2, value) for (rater, unit), value in rows.items()]
    return pd.DataFrame(flat, columns=COLUMNS)


def distance(values: tuple[float, ...], first: float, second: float, level: Level) -> float:
    """Krippendorff's squared distance, counted value by value."""
    if first == second:
        return 0.0
    if level == "nominal":
        return 1.0
    low, high = min(first, second), max(first, second)
    between = sum(1 for value in values if low < value < high)
    ends = sum(0.5 for value in values if value in (low, high))
    return float((between + ends) ** 2)


def slow_alpha(units: list[list[float]], level: Level) -> float:
    """1 - observed / expected disagreement, over every pair of judgements."""
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    n = len(values)
    if len(set(values)) < 2:
        return math.nan
    apart = cache(partial(distance, tuple(values), level=level))
    observed = 0.0
    for unit in pairable:
        for first, second in permutations(unit, 2):
            observed += apart(first, second) / (len(unit) - 1)
    expected = 0.0
    for first, second in permutations(values, 2):
        expected += apart(first, second)
    return 1 - (observed / n) / (expected / (n * (n - 1)))


def tenfold(rows: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """The same judgements of ten times as many units: agreement is defined from 10 units on."""
    return {
        (rater, unit + 100 * copy): value
        for copy in range(10)
        for (rater, unit), value in rows.items()
    }


def units_of(table: pd.DataFrame) -> dict[int, list[list[float]]]:
    """The judgements of each unit, by cluster."""
    actual: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in table.itertuples():
        actual[row.cluster][row.unit].append(float(row.value))
    return {cluster: list(units.values()) for cluster, units in actual.items()}


@pytest.mark.parametrize("level", LEVELS)
@few
@given(rows=judgements)
def test_equals_the_definition_and_another_package(
    level: Level, rows: dict[tuple[int, int], int]
) -> None:
    table = frame(tenfold(rows))
    result = agreement(table, level)
    units = [unit for cluster in units_of(table).values() for unit in cluster]
    pairable = [unit for unit in units if len(unit) > 1]
    assert (result.n_units, result.n_ratings) == (len(pairable), sum(map(len, pairable)))
    expected = slow_alpha(units, level)
    if math.isnan(expected):
        assert math.isnan(result.alpha)
        assert result.reason
        assert result.to_json()["alpha"] is None
        return
    assert result.alpha == pytest.approx(expected, abs=1e-12)
    matrix = table.pivot_table(index="rater", columns="unit", values="value").to_numpy(float)
    theirs = krippendorff.alpha(reliability_data=matrix, level_of_measurement=level)
    assert result.alpha == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_the_interval_is_two_way_on_a_log_scale(level: Level) -> None:
    rng = np.random.default_rng(3)
    rows = {
        (rater, unit): int(np.clip(unit % 4 + rng.integers(1, 4), 1, 5))
        for unit in range(24)
        for rater in rng.choice(9, size=int(rng.integers(2, 5)), replace=False)
    }
    table = frame(rows)
    units = {
        int(name): [float(value) for value in own["value"]] for name, own in table.groupby("unit")
    }
    whole = -math.log(1 - slow_alpha(list(units.values()), level))
    influence = {
        name: whole
        + math.log(1 - slow_alpha([own for other, own in units.items() if other != name], level))
        for name in units
    }
    raters = {name: {rater for rater, unit in rows if unit == name} for name in units}
    variance = sum(
        influence[unit_a] * influence[unit_b]
        for unit_a in units
        for unit_b in units
        if unit_a // 2 == unit_b // 2 or raters[unit_a] & raters[unit_b]
    )
    variance = max(variance, sum(each**2 for each in influence.values()))
    margin = stats.t.ppf(0.975, 8) * math.sqrt(variance * 9 / 8)
    ci = agreement(table, level).ci
    assert ci is not None
    assert ci.low == pytest.approx(1 - math.exp(margin - whole))
    assert ci.high == pytest.approx(1 - math.exp(-margin - whole))
    assert (ci.n_clusters, ci.unit) == (9, "participant x triplet")


def test_full_agreement_is_one_and_chance_is_near_zero() -> None:
    unanimous = {(rater, unit): unit % 5 for rater in range(3) for unit in range(20)}
    agreed = agreement(frame(unanimous), "ordinal")
    assert agreed.alpha == 1
    assert agreed.ci is not None
    assert (
        agreed.ci.reason == "annotators of the same set agree completely, so the spread is unknown"
    )
    rng = np.random.default_rng(0)
    chance = {(rater, unit): int(rng.integers(1, 6)) for rater in range(3) for unit in range(400)}
    result = agreement(frame(chance), "ordinal")
    assert result.ci is not None
    assert result.ci.low < 0 < result.ci.high


@pytest.mark.parametrize(("rows", "reason"), [
    ({}, "nothing has been judged by two people"),
    ({(0, 0): 3, (0, 1): 4, (1, 2): 4}, "nothing has been judged by two people"),
    (tenfold({(0, 0): 3, (1, 0): 3, (0, 3): 3, (1, 3): 3}), "all judgements are the same"),
    ({(0, 0): 3, (1, 0): 3, (0, 3): 3, (1, 3): 4}, "only 2 things have been judged by two people"),
])  # fmt: skip
def test_undefined_is_nan_with_its_reason(rows: dict[tuple[int, int], int], reason: str) -> None:
    result = agreement(frame(rows), "nominal")
    assert result.ci is None
    assert result.reason is not None
    assert result.reason.startswith(reason)
    assert math.isnan(result.alpha)
    assert result.to_json()["alpha"] is None


def test_one_triplet_alone_gives_no_interval() -> None:
    rows = tenfold({(0, 0): 3, (1, 0): 4, (0, 1): 4, (1, 1): 4})
    result = agreement(frame(rows).assign(cluster=0), "nominal")
    assert result.alpha < 1
    assert result.ci is not None
    assert math.isnan(result.ci.low)
    assert result.ci.reason == "an interval needs 3 triplets and participants"


def test_a_second_judgement_by_the_same_participant_does_not_count() -> None:
    rows = frame(tenfold({(0, 0): 1, (1, 0): 1, (0, 2): 2, (1, 2): 3}))
    repeated = pd.concat([rows, pd.DataFrame([("p0", 0, 0, 5)], columns=COLUMNS)])
    assert agreement(repeated, "nominal") == agreement(rows, "nominal")
    single_rater = pd.DataFrame([("p0", 0, 0, 5), ("p0", 0, 0, 4)], columns=COLUMNS)
    result = agreement(single_rater, "nominal")
    assert isinstance(result, Agreement)
    assert result.n_units == 0


def binomial_tail(least_hits: int, n: int, p: float) -> float:
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least_hits, n + 1))


@pytest.mark.parametrize(("hits", "n"), [(3, 10), (1, 2), (40, 90)])
def test_the_exact_interval_has_tails_of_2_5_percent(hits: int, n: int) -> None:
    share = exact_proportion(hits, n)
    assert (share.rate, share.n) == (hits / n, n)
    assert binomial_tail(hits, n, share.ci[0]) == pytest.approx(0.025)
    assert 1 - binomial_tail(hits + 1, n, share.ci[1]) == pytest.approx(0.025)


def test_the_exact_interval_at_0_and_1() -> None:
    assert exact_proportion(0, 5).ci[0] == 0
    assert exact_proportion(5, 5).ci[1] == 1
    empty = exact_proportion(0, 0)
    assert math.isnan(empty.rate)
    assert empty.reason == "no observation to count"
