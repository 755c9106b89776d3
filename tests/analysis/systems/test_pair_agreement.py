"""Agreement on pairs of systems: against loops, sign flips by hand, and swaps of the values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.systems import pair_agreement as pair_agreement_module
from hsfiq.analysis.systems.pair_agreement import (
    compare_spa,
    one_sided_p,
    pair_agreement,
    soft_accuracy,
    sums_of_metric,
    sums_of_people,
    swapped_together,
)


def draw(seed: int, n: int = 240, n_systems: int = 4) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Questions of 12 people about 80 triplets, the values of a metric, and the triplets."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n_systems, n)
    rows = pd.DataFrame(
        {
            "participant_id": rng.choice([f"p{number}" for number in range(12)], n),
            "query_id": [f"q{number}" for number in rng.integers(0, 100, n)],
            "set_1": [f"{number}.1" for number in range(n)],
            "set_2": [f"{number}.2" for number in range(n)],
            "first": first,
            "second": (first + rng.integers(1, n_systems, n)) % n_systems,
            "preferred": rng.choice([0, 1, 2], n, p=[0.1, 0.5, 0.4]),
        }
    )
    ids = [*rows["set_1"], *rows["set_2"]]
    values = pd.Series(rng.integers(0, 3, 2 * n).astype(float), index=ids)
    triplets = pd.Series({f"q{number}": f"t{number // 2}" for number in range(100)})
    return rows, values, triplets


def signs(rows: pd.DataFrame, values: pd.Series | None) -> list[int]:
    """1 where set 1 is the better one, -1 where set 2 is, by the metric or by people."""
    result = []
    for row in rows.itertuples():
        if values is None:
            result.append({0: 0, 1: 1, 2: -1}[row.preferred])
        else:
            gap = values[row.set_1] - values[row.set_2]
            result.append(int(np.sign(gap)))
    return result


def by_cluster(
    rows: pd.DataFrame, better: list[int], clusters: list[str], i: int, j: int
) -> dict[str, int]:
    """The wins of system i minus those of j in each cluster."""
    sums: dict[str, int] = {}
    for row, sign, cluster in zip(rows.itertuples(), better, clusters, strict=True):
        if {row.first, row.second} == {i, j}:
            sums[cluster] = sums.get(cluster, 0) + (sign if row.first == i else -sign)
    return sums


def test_sums_and_accuracy_are_those_of_plain_loops() -> None:
    rows, values, triplets = draw(1)
    metric, people = signs(rows, values), signs(rows, None)
    triplet = [triplets[query] for query in rows["query_id"]]
    totals_m, totals_p, same, variances = [], [], [], []
    for i, j in combinations(range(4), 2):
        of_metric = by_cluster(rows, metric, triplet, i, j)
        of_people = by_cluster(rows, people, rows["participant_id"].tolist(), i, j)
        totals_m.append(sum(of_metric.values()))
        totals_p.append(sum(of_people.values()))
        variances.append(sum(value**2 for value in of_metric.values()))
        gap = abs(np.sign(totals_m[-1]) - np.sign(totals_p[-1]))
        same.append({0: 1.0, 1: 0.5, 2: 0.0}[int(gap)])
    result = sums_of_metric(rows, np.array(metric, float), triplets)
    assert result.totals.tolist() == totals_m
    assert result.variance.tolist() == variances
    assert sums_of_people(rows, triplets).totals.tolist() == totals_p
    agreement = pair_agreement(rows, values, triplets)
    assert agreement.accuracy == np.mean(same)
    assert agreement.n_pairs == 6


def test_p_is_that_of_random_sign_flips() -> None:
    """The permutation test of the paper, with its draws."""
    rows, values, triplets = draw(2)
    metric = signs(rows, values)
    triplet = [triplets[query] for query in rows["query_id"]]
    rng = np.random.default_rng(0)
    expected = []
    for i, j in combinations(range(4), 2):
        own = np.array(list(by_cluster(rows, metric, triplet, i, j).values()))
        flipped = rng.choice([-1, 1], (20_000, len(own))) @ own
        ties = (flipped == own.sum()).mean()
        expected.append((flipped > own.sum()).mean() + ties / 2)
    p = sums_of_metric(rows, np.array(metric, float), triplets).p
    assert p == pytest.approx(expected, abs=0.02)


def test_peoples_variance_counts_participants_and_triplets() -> None:
    rows, _, triplets = draw(3)
    people, variance = signs(rows, None), []
    triplet = [triplets[query] for query in rows["query_id"]]
    person = rows["participant_id"].tolist()
    both = [f"{a} {b}" for a, b in zip(person, triplet, strict=True)]
    for i, j in combinations(range(4), 2):
        of_people, of_triplets, of_both = (
            sum(value**2 for value in by_cluster(rows, people, clusters, i, j).values())
            for clusters in (person, triplet, both)
        )
        variance.append(max(of_people, of_triplets, of_people + of_triplets - of_both))
    assert sums_of_people(rows, triplets).variance.tolist() == variance


def test_two_systems_without_a_decision_have_a_p_of_one_half() -> None:
    p = one_sided_p(np.array([0.0, 5.0]), np.array([0.0, 25.0]))
    assert p.tolist() == pytest.approx([0.5, 0.158655], abs=1e-6)


def test_spa_compares_the_p_of_all_pairs() -> None:
    people, metric = np.array([0.01, 0.5, 0.9]), np.array([0.03, 0.1, 0.9])
    assert soft_accuracy(people, metric) == pytest.approx(1 - (0.02 + 0.4 + 0) / 3)
    rows, values, triplets = draw(4)
    gaps = np.array(signs(rows, values), float)
    expected = soft_accuracy(
        sums_of_people(rows, triplets).p, sums_of_metric(rows, gaps, triplets).p
    )
    assert pair_agreement(rows, values, triplets).spa == pytest.approx(float(expected))


def test_a_difference_is_tested_by_swapping_the_values_of_whole_triplets() -> None:
    rows, first, triplets = draw(5)
    second = draw(6)[1]
    swaps = Swaps(n=40, seed=3)
    (result,) = compare_spa(rows, {"first": first, "second": second}, triplets, swaps)

    def gap(metric: pd.Series, other_metric: pd.Series) -> float:
        ours, theirs = (pair_agreement(rows, each, triplets) for each in (metric, other_metric))
        return ours.spa - theirs.spa

    assert result.spa.difference == pytest.approx(gap(first, second))
    order = pd.unique(rows["query_id"].map(triplets))
    (masks,) = swaps.masks(len(order))
    question_of = {
        name: query
        for row in rows.itertuples()
        for name, query in ((row.set_1, row.query_id), (row.set_2, row.query_id))
    }
    extreme = 0
    for mask in masks:
        swapped = set(order[mask])
        chosen = np.array([triplets[question_of[name]] in swapped for name in first.index])
        first_swapped, second_swapped = (first.where(~chosen, second), second.where(~chosen, first))
        extreme += abs(gap(first_swapped, second_swapped)) >= abs(result.spa.difference) - 1e-12
    assert result.spa.p == pytest.approx((extreme + 1) / 41)
    assert result.spa.p_holm == result.spa.p
    assert result.spa.n_clusters == len(order)


def test_equal_metrics_do_not_differ() -> None:
    rows, values, triplets = draw(7)
    (result,) = compare_spa(rows, {"one": values, "two": values}, triplets, Swaps(n=20))
    assert (result.spa.difference, result.spa.p) == (0, 1)


def test_reasons() -> None:
    rows, values, triplets = draw(8)
    none = pair_agreement(rows.iloc[:0], values, triplets)
    assert none.reason == "no question compares two systems and has both values of the metric"
    question = rows.iloc[:1]
    (result,) = compare_spa(question, {"one": values, "two": values}, triplets, Swaps(n=20))
    assert "needs 2 triplets" in str(result.spa.reason)
    assert pair_agreement(question, values, triplets).to_json()["accuracy_significant"] is None


def test_clusters_are_only_those_that_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each participant and triplet that there could be would take all memory."""
    n = 300
    queries = [f"q{number}" for number in range(n)]
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number}" for number in range(n)],
            "query_id": queries,
            "first": 0,
            "second": 1,
            "preferred": 1,
        }
    )
    n_clusters = []
    sums = pair_agreement_module._sums

    def recorded(table: pd.DataFrame, signs: np.ndarray, codes: np.ndarray) -> object:
        n_clusters.append(int(codes.max()) + 1)
        return sums(table, signs, codes)

    monkeypatch.setattr(pair_agreement_module, "_sums", recorded)
    sums_of_people(rows, pd.Series(queries, index=queries))
    assert n_clusters == [n, n, n]


def test_many_triplets_are_swapped_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert swapped_together(4, 0).toarray().tolist() == np.eye(4).tolist()
    monkeypatch.setattr(pair_agreement_module, "MOST_UNITS", 6)
    units = swapped_together(20, 0)
    assert units.shape == (6, 20)
    assert units.sum(axis=0).tolist() == [1] * 20
    assert set(units.sum(axis=1).tolist()) == {3, 4}
    rows, first, triplets = draw(5)
    (result,) = compare_spa(
        rows, {"first": first, "second": draw(6)[1]}, triplets, Swaps(n=40, seed=3)
    )
    assert 0 < result.spa.p <= 1
