"""The values by query against literal twins on random lists and grades."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from hsfiq.model.evaluation.comparison import RESAMPLES
from hsfiq.model.evaluation.judged import (
    AP_ICIR,
    judged_figures,
    judged_intervals,
    trapezoidal_precision,
    values_by_query,
)
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


def average_precision(ranked: Sequence[str], grades: Grades) -> float:
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
        values["ap"] = average_precision(ranked, grades)
    for k in KS:
        first = ranked[:k]
        if has_relevant:
            values[f"ndcg@{k}"] = ndcg(ranked, grades, k)
            values[f"ap@{k}"] = average_precision(first, grades)
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
