"""Values by query against literal twins, and metrics against continuations of short lists."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsfiq.model.evaluation.comparison import RESAMPLES
from hsfiq.model.evaluation.judged import (
    AP_ICIR,
    judged_figures,
    judged_intervals,
    trapezoidal_precision,
    values_by_query,
)
from hsfiq.model.evaluation.metrics import average_precision, recall
from hsfiq.readers.judged import JudgedQuery, JudgedSet

Grades = Mapping[str, int]
KS = (1, 3, 10)
IMAGES = [f"i{number}" for number in range(12)]


def ndcg(ranked: Sequence[str], grades: Grades, k: int) -> float:
    gains = [max(grades.get(image, 0), 0) for image in ranked[:k]]
    best = sorted((max(grade, 0) for grade in grades.values()), reverse=True)[:k]

    def discounted(values: Sequence[int]) -> float:
        return sum(value / math.log2(place + 1) for place, value in enumerate(values, start=1))

    return discounted(gains) / discounted(best)


def literal_average_precision(ranked: Sequence[str], grades: Grades) -> float:
    """trec_eval's: divided by all relevant images, also if the list is cut."""
    relevant = {image for image, grade in grades.items() if grade > 0}
    total = 0.0
    for place in range(1, len(ranked) + 1):
        if ranked[place - 1] in relevant:
            total += len(relevant & set(ranked[:place])) / place
    return total / len(relevant)


def literal(ranked: Sequence[str], grades: Grades) -> dict[str, float]:
    values = {}
    has_relevant = any(grade > 0 for grade in grades.values())
    if has_relevant:
        values["ap"] = literal_average_precision(ranked, grades)
    for k in KS:
        first = ranked[:k]
        if has_relevant:
            values[f"ndcg@{k}"] = ndcg(ranked, grades, k)
            values[f"ap@{k}"] = literal_average_precision(first, grades)
        values[f"p@{k}"] = sum(grades.get(image, 0) > 0 for image in first) / k
        values[f"wrong@{k}"] = sum(grades.get(image, 0) < 0 for image in first) / k
        values[f"judged@{k}"] = sum(image in grades for image in first) / k
    return values


def drawn_set(rng: random.Random, n: int) -> tuple[JudgedSet, dict[str, tuple[str, ...]]]:
    """Complete rankings of one database; some queries have no relevant image, some no grade."""
    queries = tuple(JudgedQuery(f"q{number}", "", f"q{number}") for number in range(n))
    grades = {
        query.query_id: {
            image: rng.choice((-2, -1, 0, 0, 1, 2, 3))
            for image in rng.sample(IMAGES, rng.randrange(6))
        }
        for query in queries
    }
    lists = {query.query_id: tuple(rng.sample(IMAGES, len(IMAGES))) for query in queries}
    return JudgedSet("drawn", queries, grades, {"": frozenset(IMAGES)}), lists


def test_values_equal_their_twins() -> None:
    judged, lists = drawn_set(random.Random(3), 250)
    values = values_by_query(judged, lists, KS)
    for query_id, own in values.items():
        assert own == pytest.approx(literal(lists[query_id], judged.grades[query_id]), abs=1e-9)
    assert sum("ap" not in own for own in values.values()) > 20


def test_a_list_counts_only_where_it_is_long_enough() -> None:
    """Of each shortened list, a value is given only if no continuation could change it."""
    judged, lists = drawn_set(random.Random(4), 60)
    rng = random.Random(5)
    short = {query_id: images[: rng.randrange(1, 12)] for query_id, images in lists.items()}
    values = values_by_query(judged, short, KS)
    n_settled = n_open = 0
    for query_id, own in values.items():
        remaining = [image for image in IMAGES if image not in short[query_id]]
        continued = [
            literal([*short[query_id], *order], judged.grades[query_id])
            for order in (
                remaining,
                remaining[::-1],
                *(rng.sample(remaining, len(remaining)) for _ in range(9)),
            )
        ]
        for name, value in own.items():
            possible = {round(each[name], 9) for each in continued}
            if value is None:
                n_open += 1
            else:
                n_settled += 1
                assert possible == {round(value, 9)}
    assert n_open > 50
    assert n_settled > 50


def test_intervals_are_over_the_queries_that_have_a_value() -> None:
    judged, lists = drawn_set(random.Random(6), 60)
    paraphrases = tuple(
        query._replace(cluster=str(number // 3)) for number, query in enumerate(judged.queries)
    )
    judged = replace(judged, queries=paraphrases)
    figures = judged_figures(judged, "a", lists, (3,))
    own = judged_intervals(judged, figures, seed=2)
    for name in ("ap", "wrong@3"):
        clusters: dict[str, list[float]] = {}
        for query in paraphrases:
            value = figures.values[query.query_id].get(name)
            if value is not None:
                clusters.setdefault(query.cluster, []).append(value)
        groups = list(clusters.values())
        stream = np.random.default_rng((2, 0))
        means = [
            np.mean(
                np.concatenate([groups[i] for i in stream.integers(len(groups), size=len(groups))])
            )
            for _ in range(RESAMPLES)
        ]
        expected = tuple(np.quantile(means, [0.025, 0.975]))
        assert (own[name].low, own[name].high) == pytest.approx(expected)
        assert own[name].n_clusters == len(groups)


def test_the_order_of_the_list_decides_and_not_the_names() -> None:
    """`ir_measures` breaks ties of scores by name; lists have no ties."""
    queries = (JudgedQuery("q", "", "q"),)
    judged = JudgedSet("x", queries, {"q": {"b": 1}}, None)
    for images, expected in (
        (("a", "b", "z"), 0.5),
        (("z", "b", "a"), 0.5),
        (("b", "a", "z"), 1.0),
    ):
        assert values_by_query(judged, {"q": images}, (1,))["q"]["ap"] == expected


def test_precision_by_the_trapezoidal_rule_by_hand() -> None:
    grades = {"a": 1, "b": 1, "c": 0}
    # a at 2: (0/1 + 1/2) / 2; b at 3: (1/2 + 2/3) / 2.
    expected = (0.25 + (1 / 2 + 2 / 3) / 2) / 2
    assert trapezoidal_precision(["c", "a", "b"], grades) == pytest.approx(expected)
    assert trapezoidal_precision(["a", "b", "c"], grades) == 1.0
    assert trapezoidal_precision(["c"], {"c": 0}) == 0.0


def test_in_icirs_protocol_all_images_are_judged() -> None:
    queries = (JudgedQuery("q", "g", "g"),)
    database = {"g": frozenset("abc")}
    judged = JudgedSet("i-CIR", queries, {"q": {"a": 1, "b": 1}}, database, protocol="icir")
    own = values_by_query(judged, {"q": ("c", "a", "b")}, (2,))["q"]
    assert own == pytest.approx(
        {"ap": (1 / 2 + 2 / 3) / 2, AP_ICIR: (0.25 + 7 / 12) / 2, "ap@2": 0.25, "p@2": 0.5,
         "ndcg@2": (1 / math.log2(3)) / (1 + 1 / math.log2(3))}
    )  # fmt: skip


CORPUS = "abcdef"


def slow_recall(ranked: list[str], target: str, k: int) -> float:
    """Count the target among the first k."""
    return float(sum(image == target for image in ranked[:k]))


def slow_precision(ranked: list[str], truths: set[str], k: int) -> float:
    """The printed formula: precision at i times relevance at i, divided by min(|G|, k)."""
    total = 0.0
    for i in range(1, min(k, len(ranked)) + 1):
        precision = sum(ranked[j] in truths for j in range(i)) / i
        total += precision * (ranked[i - 1] in truths)
    return total / min(len(truths), k)


def continuations(begun: list[str]) -> list[list[str]]:
    """Every ranking of the corpus that starts with `begun`."""
    remaining = [image for image in CORPUS if image not in begun]
    return [[*begun, *order] for order in permutations(remaining)]


SOME_LISTS = st.lists(st.sampled_from(CORPUS), unique=True, min_size=2)


@settings(max_examples=60)
@given(SOME_LISTS, st.sampled_from(CORPUS), st.integers(1, 5))
def test_recall_is_defined_if_continuations_agree(ranked: list[str], target: str, k: int) -> None:
    value = recall(ranked, target, k, len(CORPUS))
    possible = {slow_recall(continuation, target, k) for continuation in continuations(ranked)}
    if value is not None:
        assert possible == {value}
    else:
        assert possible == {0.0, 1.0}


@settings(max_examples=60)
@given(SOME_LISTS, st.sets(st.sampled_from(CORPUS), min_size=1), st.integers(1, 6))
def test_precision_if_continuations_agree(ranked: list[str], truths: set[str], k: int) -> None:
    value = average_precision(ranked, truths, k, len(CORPUS))
    possible = {
        round(slow_precision(continuation, truths, k), 12) for continuation in continuations(ranked)
    }
    if value is not None:
        assert possible == {round(value, 12)}
    else:
        assert len(ranked) < k
        assert truths - set(ranked)


@pytest.mark.parametrize(
    ("ranked", "truths", "k", "value"),
    [
        ("abcdef", "a", 5, 1.0),
        ("abcdef", "b", 5, 1 / 2),
        ("abcdef", "f", 5, 0.0),
        ("abcdef", "ac", 5, (1 + 2 / 3) / 2),
        ("abcdef", "abcdef", 3, 1.0),  # more truths than places
        ("abcdef", "cdefgh", 3, (1 / 3) / 3),
        ("ab", "ab", 5, 1.0),  # short, but all truths are in it
        ("ab", "ac", 5, None),
        ("ab", "ac", 2, 1 / 2),
    ],
)
def test_hand_computed_precisions(ranked: str, truths: str, k: int, value: float | None) -> None:
    result = average_precision(list(ranked), set(truths), k, None)
    assert result == (value if value is None else pytest.approx(value, abs=1e-15))


def test_a_list_of_the_complete_corpus_defines_every_figure() -> None:
    assert recall(["a", "b"], "c", 5, 2) == 0.0
    assert recall(["a", "b"], "c", 5, 3) is None
    assert recall(["a", "b"], "c", 5, None) is None
    assert average_precision(["a", "b"], {"c"}, 5, 2) == 0.0
