"""The value of each measure for each query's list, by `ir_measures`.

Grades below 0 give no gain and are not relevant; only `wrong@k` tells them from 0. Lists keep their
order: it decides, not the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import ir_measures
from ir_measures import AP, Judged, Measure, P, nDCG

from hsfiq.model.evaluation.judged.match import Lists
from hsfiq.readers.judged.judged_set import JudgedQuery, JudgedSet

BATCH: Final = 100
"""Queries whose complete lists are passed to `ir_measures` at once."""

AP_ICIR = "ap_icir"
"""i-CIR's average precision, by the trapezoidal rule."""

Values = dict[str, float | None]
"""By figure: None if the list does not determine it; absent if the query has no such value."""


def values_by_query(judged: JudgedSet, lists: Lists, ks: Sequence[int]) -> dict[str, Values]:
    """The values of a system's lists by query; a query without a list is a miss.

    nDCG and AP are absent for queries without a relevant image. `wrong@k` and `judged@k` are absent
    for queries without a list, and in i-CIR's protocol, in which every image is judged.
    """
    values: dict[str, Values] = {}
    for start in range(0, len(judged.queries), BATCH):
        queries = judged.queries[start : start + BATCH]
        computed = computed_values(judged, queries, lists, ks)
        for query in queries:
            own = computed[query.query_id]
            values[query.query_id] = settled_values(judged, query, lists, own)
    return values


def computed_values(
    judged: JudgedSet, queries: Sequence[JudgedQuery], lists: Lists, ks: Sequence[int]
) -> dict[str, dict[str, float]]:
    """All measures by query as if no other images were ranked; 0 without a list."""
    ids = [query.query_id for query in queries]
    run = {
        query_id: {image: -float(place) for place, image in enumerate(lists[query_id])}
        for query_id in ids
        if lists.get(query_id)
    }
    named: dict[Measure, str] = {AP: "ap"}
    for k in ks:
        named |= {nDCG @ k: f"ndcg@{k}", AP @ k: f"ap@{k}", P @ k: f"p@{k}"}
        named |= {Judged @ k: f"judged@{k}"}
    named_wrong: dict[Measure, str] = {P @ k: f"wrong@{k}" for k in ks}
    values = {
        query_id: dict.fromkeys([*named.values(), *named_wrong.values()], 0.0) for query_id in ids
    }
    relevant = changed_grades(judged, ids, lambda grade: max(grade, 0))
    wrong = changed_grades(judged, ids, lambda grade: int(grade < 0))
    for grades, names in ((relevant, named), (wrong, named_wrong)):
        for each in ir_measures.iter_calc(list(names), grades, run):
            values[each.query_id][names[each.measure]] = float(each.value)
    if judged.protocol == "icir":
        for query_id in ids:
            values[query_id][AP_ICIR] = trapezoidal_precision(
                lists.get(query_id, ()), relevant[query_id]
            )
    return values


def changed_grades(
    judged: JudgedSet, ids: Sequence[str], change: Callable[[int], int]
) -> dict[str, dict[str, int]]:
    return {
        query_id: {image: change(grade) for image, grade in judged.grades[query_id].items()}
        for query_id in ids
    }


def trapezoidal_precision(images: Sequence[str], grades: Mapping[str, int]) -> float:
    """i-CIR's average precision: between two right answers precision is taken as linear.

    Its code divides by the number of right answers plus 1e-5, here by that number; 0 without any.
    """
    n_relevant = sum(grade > 0 for grade in grades.values())
    area, n_found = 0.0, 0
    for place, image in enumerate(images):
        if grades.get(image, 0) > 0:
            before = n_found / place if place else 1.0
            n_found += 1
            area += (before + n_found / (place + 1)) / 2
    return area / n_relevant if n_relevant else 0.0


def settled_values(
    judged: JudgedSet, query: JudgedQuery, lists: Lists, computed: Mapping[str, float]
) -> Values:
    """The values that the query has; None where images after the list's end could change one."""
    grades = judged.grades[query.query_id]
    relevant = {image for image, grade in grades.items() if grade > 0}
    wrong = {image for image, grade in grades.items() if grade < 0}
    images = lists.get(query.query_id)
    settled: Values = {}
    for name, value in computed.items():
        kind, _, k = name.partition("@")
        if kind in ("wrong", "judged"):
            has_value = images is not None and judged.protocol == "trec"
        else:
            has_value = kind == "p" or bool(relevant)
        if not has_value:
            continue
        decisive = {"wrong": wrong, "judged": None}.get(kind, relevant)
        database = judged.database_of(query)
        is_settled = (
            images is None
            or (k != "" and len(images) >= int(k))
            or (database is not None and len(images) == len(database))
            or (decisive is not None and decisive <= set(images))
        )
        settled[name] = value if is_settled else None
    return settled
