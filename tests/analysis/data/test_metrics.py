from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.analysis.data.metrics import Metric, Recall, ScoreColumn, known_metrics, parse_metric
from hsfiq.errors import UnreadableInput
from tests.analysis import reference
from tests.analysis.studies import Question, few, make_release, studies

if TYPE_CHECKING:
    from collections.abc import Callable

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
        (lambda: ScoreColumn("recall@5"), "counted from the sets"),
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
