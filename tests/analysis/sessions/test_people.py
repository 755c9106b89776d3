"""People beside simulators, against values computed by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hsfiq.analysis.reports.document import Table
from hsfiq.analysis.reports.sessions import people_curves, people_section
from hsfiq.analysis.reports.text import table_lines
from hsfiq.analysis.sessions.people import PeopleAndSimulators, compare_rows
from hsfiq.analysis.sessions.ranks import Rules
from hsfiq.errors import UnreadableInput

Sessions = Sequence[tuple[str, str | None, Sequence[int]]]
"""Of each session the query, the participant and the ranks."""

PEOPLE_X: Sessions = [("q1", "p1", [9, 3]), ("q1", "p2", [9, 9, 9]), ("q2", "p1", [4, 4, 1])]
SIMULATED_X: Sessions = [("q1", None, [9, 2, 1]), ("q2", None, [4, 2, 2]), ("q3", None, [9, 9, 9])]
PEOPLE_Y: Sessions = [("q1", "p1", [1]), ("q2", "p2", [2, 2, 2])]
SIMULATED_Y: Sessions = [("q1", None, [9, 9, 9]), ("q2", None, [4, 4, 4])]
SIDES = {
    "a": (None, "x"),
    "b": ("drawn", "x"),
    "c": (None, "y"),
    "d": ("drawn", "y"),
    "e": ("floor", "x"),
}


def compared(
    sides: Mapping[str, Sessions], rules: Rules | None = None, **session: Any
) -> PeopleAndSimulators:
    session_rows, round_rows = [], []
    for name, own in sides.items():
        for number, (query, participant, ranks) in enumerate(own):
            key = {"system": name, "session_id": f"{query}/{number}"}
            session_rows.append(
                {**key, "query_id": query, "participant_id": participant, "has_target": True}
                | session
            )
            words = 6 if participant is None else 3
            round_rows += [
                {**key, "round": place, "rank": rank, "ties": 0, "depth": 5}
                | {"words": 20 if place == 1 else words, "reference": f"{place}"}
                for place, rank in enumerate(ranks, start=1)
            ]
    chosen = {name: SIDES[name] for name in sides}
    return compare_rows(session_rows, round_rows, chosen, {}, rules or Rules(), n_resamples=30)


def test_each_query_counts_once_and_the_last_list_stays() -> None:
    result = compared({"a": PEOPLE_X, "b": SIMULATED_X})
    (comparison,) = result.comparisons
    sizes = (comparison.n_queries, comparison.n_people_sessions, comparison.n_simulator_sessions)
    assert (result.k, sizes) == (5, (2, 3, 2))  # the third query is the simulator's alone
    hits = comparison.figures["hits@5"]
    # Of the first query one of two people, who stopped in the second round; of the second all.
    assert [each.people.value for each in hits] == [1 / 2, (1 / 2 + 1) / 2, (1 / 2 + 1) / 2]
    assert [each.simulator.value for each in hits] == [1 / 2, 1, 1]
    assert [each.difference.value for each in hits] == [0, 1 / 4, 1 / 4]
    assert [each.difference.n for each in hits] == [2, 2, 2]
    rank = comparison.figures["mean_rank_current"][2]
    assert rank.people.value == pytest.approx(((3 + 9) / 2 + 1) / 2)
    assert rank.difference.ci is not None
    # The first text is the query's own.
    assert (comparison.words.people.value, comparison.words.simulator.value) == (3, 6)
    assert comparison.verdict == "not settled"


def test_a_simulator_that_is_always_better_is_optimistic() -> None:
    worse = [(f"q{n}", f"p{n}", [9, 9]) for n in range(12)]
    better = [(f"q{n}", None, [9, 1 + (n == 0) * 8]) for n in range(12)]
    (comparison,) = compared({"a": worse, "b": better}).comparisons
    assert comparison.verdict == "optimistic"
    people = [(query, f"p{query}", ranks) for query, _, ranks in better]
    simulated = [(query, None, ranks) for query, _, ranks in worse]
    (comparison,) = compared({"a": people, "b": simulated}).comparisons
    assert comparison.verdict == "pessimistic"


def test_whether_systems_have_the_same_order() -> None:
    result = compared({"a": PEOPLE_X, "b": SIMULATED_X, "c": PEOPLE_Y, "d": SIMULATED_Y})
    (order,) = result.orders
    assert (order.systems, order.simulator, order.n_queries) == (("x", "y"), "drawn", 2)
    assert (order.people.value, order.by_simulator.value) == (1 - 3 / 4, 1 / 2 - 1)
    assert order.agrees is False
    tables = [block for block in people_section(result).blocks if isinstance(block, Table)]
    assert [table.name for table in tables] == ["people_1", "people_2", "orders"]
    lines = list(table_lines(tables[-1]))
    (row,) = (line for line in lines if "x, y" in line)
    assert "+0.2500" in row
    assert row.split()[-1] != "yes"
    assert max(map(len, lines)) <= 100


def test_curves_of_people_are_of_the_queries_of_each_simulator() -> None:
    result = compared({"a": PEOPLE_X, "b": SIMULATED_X, "e": [("q1", None, [9, 9, 9])]})
    curves = people_curves(result)
    assert list(curves) == ["x, people", "x, drawn", "x, people (floor's queries)", "x, floor"]
    last = [curves[name]["hits@5"][-1].value for name in curves]
    assert last == [3 / 4, 1, 1 / 2, 0]
    same = compared({"a": PEOPLE_X, "b": SIMULATED_X, "e": SIMULATED_X})
    assert list(people_curves(same)) == ["x, people", "x, drawn", "x, floor"]


def test_sides_without_a_common_query_or_text() -> None:
    result = compared({"a": [("q1", "p1", [1])], "b": [("q2", None, [1])]})
    (comparison,) = result.comparisons
    for each in (comparison.figures["hits@5"][0].difference, comparison.words.people):
        assert math.isnan(each.value)
        assert each.reason == "people and simulator have no query in common"
    alone = compared({"a": [("q1", "p1", [1])], "b": [("q1", None, [1])]}).comparisons[0]
    assert alone.words.people.reason == "no text after the first one is known"


def test_a_stop_that_censors_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="censors Hits@5"):
        compared({"a": PEOPLE_X, "b": SIMULATED_X}, stop_at=10)
