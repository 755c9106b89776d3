"""The columns of answers: the rule for contradictions, and ids held as categories."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.analyze import analyze
from hsfiq.analysis.data.columns import (
    as_categories,
    contradictions,
    is_among,
    looked_up,
    places_of,
)
from hsfiq.analysis.data.metrics import (
    GivenScores,
    Metric,
    Recall,
    ScoreColumn,
    known_metrics,
    parse_metric,
)
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.answer_rules import MOST_POINTS, contradicts
from hsfiq.errors import UnreadableInput
from tests.analysis import reference
from tests.analysis.drawn_releases import draw_release
from tests.analysis.studies import Question, few, make_release, studies
from tests.studies import pair_answer


def test_columns_contradict_as_single_answers_do() -> None:
    scores = range(1, MOST_POINTS + 1)
    answers = [pair_answer(*values) for values in product(scores, scores, (0, 1, 2))]
    table = pd.DataFrame([answer.values for answer in answers])
    expected = [
        contradicts(answer.values["preferred"], answer.values["score_1"], answer.values["score_2"])
        for answer in answers
    ]
    assert list(contradictions(table)) == expected
    assert sum(expected) == MOST_POINTS * (MOST_POINTS - 1)


ids = st.lists(st.sampled_from(["q1", "q10", "q2", "q3"]), max_size=8)
indexes = st.lists(st.sampled_from(["q1", "q10", "q2", "q3", "q9"]), unique=True)


def one_table(**columns: list[str]) -> dict[str, pd.DataFrame]:
    return {name: pd.DataFrame({"query_id": each}, dtype="str") for name, each in columns.items()}


@few
@given(ids, indexes)
def test_lookup_equals_map(wanted: list[str], known: list[str]) -> None:
    tables = one_table(rows=wanted, values=known)
    coded = as_categories(tables)
    values = pd.Series(np.arange(len(known)), index=pd.Index(known, dtype="str"))
    expected = tables["rows"]["query_id"].map(values)
    by_category = values.set_axis(pd.Index(coded["values"]["query_id"]))
    for each in (values, by_category):
        values = looked_up(coded["rows"]["query_id"], each)
        pd.testing.assert_series_equal(values, expected, check_names=False, check_dtype=False)


@few
@given(ids, ids)
def test_is_among_equals_isin(wanted: list[str], others: list[str]) -> None:
    tables = one_table(rows=wanted, others=others)
    coded = as_categories(tables)
    expected = tables["rows"]["query_id"].isin(tables["others"]["query_id"])
    for each in (tables["others"]["query_id"], coded["others"]["query_id"]):
        among = is_among(coded["rows"]["query_id"], each)
        assert among.tolist() == expected.tolist()


@few
@given(ids, indexes)
def test_places_are_those_of_an_index(wanted: list[str], known: list[str]) -> None:
    places = places_of(pd.Series(wanted, dtype="str"), pd.Series(known, dtype="str"))
    assert places.tolist() == [known.index(each) if each in known else -1 for each in wanted]


def test_null_has_no_value() -> None:
    table = pd.DataFrame({"system": ["a", None, "b"]}, dtype=object)
    coded = as_categories({"sets": table})["sets"]["system"]
    values = looked_up(coded, pd.Series([1, 2], index=["a", "b"]))
    assert values.isna().tolist() == [False, True, False]
    assert values[[0, 2]].tolist() == [1, 2]


def test_analysis_is_the_same_with_plain_text_and_with_categories() -> None:
    release, values = draw_release(6, 15, seed=3, overlap=2)
    scores = pd.DataFrame({"set_id": values.index, "score": values.to_numpy()})
    metrics = [Recall(5), GivenScores("good", scores)]
    plain, by_category = (
        analyze(each, metrics, Bootstrap.of_release(each, n_resamples=50), in_detail=True).to_json()
        for each in (release, release.with_categories())
    )
    assert plain == by_category


def test_a_part_has_categories_too() -> None:
    release, _ = draw_release(4, 10, seed=4)
    plain, coded = (
        each.subset(each.preferences["participant_id"] != "nobody")
        for each in (release, release.with_categories())
    )
    assert plain.sets["set_id"].tolist() == coded.sets["set_id"].tolist()
    assert coded.triplets.astype(str).to_dict() == plain.triplets.to_dict()


column_names = st.text(min_size=1).filter(
    lambda name: name.strip() and not name.lower().startswith("recall@")
)
metrics = st.one_of(st.integers(1, 10**6).map(Recall), column_names.map(ScoreColumn))


@few
@given(metrics)
def test_names_survive_the_round_trip(metric: Metric) -> None:
    assert parse_metric(str(metric)) == metric
    assert len({metric, parse_metric(str(metric))}) == 1


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("recall@5", Recall(5)),
        ("Recall@10", Recall(10)),
        ("cirqrs", ScoreColumn("cirqrs")),
        ("my scorer", ScoreColumn("my scorer")),
        ("recall", ScoreColumn("recall")),
    ],
)
def test_alternative_spellings_of_names(name: str, metric: Metric) -> None:
    assert parse_metric(name) == metric


@pytest.mark.parametrize(
    "name", ["recall@", "recall@0", "recall@-1", "recall@05", "recall@5x", "recall@²"]
)
def test_an_invalid_k_is_an_error(name: str) -> None:
    with pytest.raises(UnreadableInput, match="k must be a whole number from 1"):
        parse_metric(name)


@pytest.mark.parametrize(
    ("make_metric", "message"),
    [
        (lambda: parse_metric("  "), "the name is empty"),
        (lambda: Recall(0), "recall@0: k must be 1 or more"),
        (lambda: ScoreColumn("recall@5"), "computed from the sets"),
    ],
)
def test_impossible_metrics_cannot_be_made(make_metric: Callable[[], Metric], message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        make_metric()


@few
@given(studies, st.integers(1, 5))
def test_recall_equals_the_definition(study: list[Question], k: int) -> None:
    values = Recall(k).values(make_release(study))
    expected = [reference.recall(question, side, k) for question in study for side in (0, 1)]
    assert [None if math.isnan(value) else value for value in values] == expected


def test_known_metrics() -> None:
    release = make_release([Question(1)], scores={"cirqrs": Path("cirqrs.parquet")})
    assert known_metrics(release) == [*(f"recall@{k}" for k in range(1, 6)), "cirqrs"]
    assert known_metrics(make_release([])) == []


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (Recall(7), r"small has sets of 5; use recall@5 or a smaller k$"),
        (ScoreColumn("yours"), "use one of recall@1, recall@2, recall@3, recall@4, recall@5, mine"),
        (
            ScoreColumn("cirqrs"),
            r"`hsfiq score 'my releases/small' --checkpoint DIR --name cirqrs`",
        ),
    ],
)
def test_unknown_metrics_say_what_there_is(metric: Metric, message: str) -> None:
    scores = {"mine": Path("mine.csv")}
    release = make_release([Question(1)], folder=Path("my releases/small"), scores=scores)
    with pytest.raises(UnreadableInput, match=message):
        metric.values(release)
