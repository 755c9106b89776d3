"""The columns of answers: the rule for contradictions, and ids held as categories."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
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
from hsfiq.analysis.data.metrics import GivenScores, Recall
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.answer_rules import MOST_POINTS, contradicts
from tests.analysis.drawn_releases import draw_release
from tests.analysis.studies import few
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
