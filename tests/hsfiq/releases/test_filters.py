"""Named filters: their names, straight-lining, and every rule that a dropped question broke."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.answer_rules import Times
from hsfiq.db.engine import Database
from hsfiq.errors import UnreadableInput
from hsfiq.kinds.rows import QuestionRow
from hsfiq.releases.dropping_rules import with_runs
from hsfiq.study.config import Design
from hsfiq.study.filters import Filters, parse_filters
from tests.hsfiq.releases.slow_questions import QuestionRows, bare_question
from tests.hsfiq.samples import hsfiq, on_sqlite, release_of, rows
from tests.studies import NOW, Seat, draw, make_queries, pair_answer

# -------------------------------------------------------------------------------------------- names

filters = st.builds(
    Filters,
    invalid=st.booleans(),
    failed_checks=st.booleans(),
    unseen=st.booleans(),
    min_seconds=st.none() | st.floats(0, 1e9) | st.integers(0, 100).map(float),
    straight_run=st.none() | st.integers(2, 10**6),
)


@given(filters)
def test_printed_names_are_parsed_to_the_same_filters(chosen: Filters) -> None:
    assert parse_filters(chosen.names()) == chosen


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("slow", "'slow' is not a filter; use one of invalid, failed-checks, unseen, too-fast("),
        ("too-fast", "use too-fast(seconds=2)"),
        ("too-fast(2)", "'too-fast(2)' is not a filter"),
        ("too-fast(run=2)", "use too-fast(seconds=2)"),
        ("too-fast(seconds=-1)", "'-1'"),
        ("too-fast(seconds=nan)", "'nan'"),
        ("straight-lining(run=1)", "'1'"),
        ("straight-lining(run=2.5)", "'2.5'"),
        ("unseen(share=1)", "use unseen"),
        ("", "'' is not a filter"),
    ],
)
def test_unknown_names_and_values_are_refused(name: str, message: str) -> None:
    with pytest.raises(UnreadableInput) as error_info:
        parse_filters([name])
    assert str(error_info.value).startswith("--filter: ")
    assert message in str(error_info.value)


def test_names_have_blanks_and_defaults_and_are_given_once() -> None:
    assert parse_filters([" too-fast( seconds = 2.50 ) ", "straight-lining"]) == Filters(
        min_seconds=2.5, straight_run=10
    )
    with pytest.raises(UnreadableInput, match="too-fast is given twice"):
        parse_filters(["too-fast(seconds=1)"], Filters(min_seconds=1.0))


# ---------------------------------------------------------------------------------- straight-lining


def run_by_definition(questions: list[QuestionRow], place: int) -> int | None:
    """Count the same answers before and after one, with those of its participant alone."""
    own = questions[place].answer
    if own is None:
        return None
    run = 1
    for direction in (range(place - 1, -1, -1), range(place + 1, len(questions))):
        for other in direction:
            if questions[other].participant_id != questions[place].participant_id:
                break
            answer = questions[other].answer
            if answer is None:
                continue
            if answer != own:
                break
            run += 1
    return run


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1]), st.sampled_from([None, 1, 1, 2]))),
    st.booleans(),
)
def test_runs_equal_their_definition(drawn: list[tuple[int, int | None]], judged: bool) -> None:
    person, questions = 0, []
    for place, (step, value) in enumerate(drawn):
        person += step
        scores = dict.fromkeys(("score_1", "score_2", "preferred"), value)
        answer: dict[str, Any] = {"judgement": {"score": value}} if judged else scores
        questions.append(bare_question(f"p{person}", place, **(answer if value else {})))
    with_runs(QuestionRows(questions))
    assert [each.run for each in questions] == [
        run_by_definition(questions, place) for place in range(len(questions))
    ]


@pytest.fixture
def study(database: Database) -> Database:
    """A participant of four questions: three answers are the same, one of them fast and flagged."""
    queries = make_queries(database, length=5)
    key = draw(database, queries, Design(questions_per_form=4, forms_per_participant=1, seed=1))
    seat = Seat.taken(database, key)
    for question, (scores, seconds, is_flagged) in zip(
        seat.question_ids,
        (((4, 2, 1), 9, False), ((4, 2, 1), 1, True), ((4, 2, 1), 9, False), ((1, 5, 1), 1, False)),
        strict=True,
    ):
        times = Times(NOW, NOW, NOW, seconds)
        seat.submit(question, pair_answer(*scores, is_flagged, times=times))
    return database


def test_straight_lining_drops_the_answers_of_the_run(study: Database) -> None:
    release = release_of(study, "hp", Filters(straight_run=3))
    assert {row["value"] for row in rows(release, "exclusions")} == {"3 the same in a row"}
    assert [row["question_id"] for row in rows(release, "preferences")] == ["p1.form_1.3"]
    assert rows(release_of(study, "hp", Filters(straight_run=4)), "exclusions") == []


@on_sqlite
def test_a_dropped_question_has_all_rules_that_it_broke(study: Database) -> None:
    release = release_of(study, "hp", Filters(invalid=True, min_seconds=2.0, straight_run=4))
    excluded = {row["question_id"][-1]: row for row in rows(release, "exclusions")}
    fast, slow = "too-fast(seconds=2)", "1.0 seconds"
    assert {key: (row["rules"], row["values"]) for key, row in excluded.items()} == {
        "1": (["irrelevant", fast], ["flagged", slow]),
        "3": (["contradicts", fast], ["prefers set 1, scores 1 and 5", slow]),
    }
    for row in excluded.values():
        assert (row["rule"], row["value"]) == (row["rules"][0], row["values"][0])
    manifest = json.loads(release.files["manifest.json"])
    assert manifest["filters"] == [
        {"name": "invalid", "parameters": {}},
        {"name": "too-fast", "parameters": {"seconds": 2.0}},
        {"name": "straight-lining", "parameters": {"run": 4}},
    ]
    broken = [rule for row in excluded.values() for rule in row["rules"]]
    first = [row["rule"] for row in excluded.values()]
    steps = manifest["funnel"]["steps"]
    assert sum(step["dropped"] for step in steps) == len(excluded)
    for step in steps:
        assert step["broken_by"] == broken.count(step["rule"])
        assert step["dropped"] == first.count(step["rule"])


# ------------------------------------------------------------------------------------ the command


@pytest.mark.usefixtures("in_folder")
def test_explain_prints_the_funnel_and_writes_nothing(tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    chosen = ("--filter", "invalid", "--filter", "straight-lining(run=2)")
    split = ("--split", "triplet", "--test-share", "0.5")
    explained = hsfiq("export", "--explain", *chosen, *split, "--json")
    assert explained.code == 0, explained.err
    assert sorted(tmp_path.rglob("*")) == before
    written = hsfiq("export", *chosen, *split, "--json").result["releases"]
    for explanation, release in zip(explained.result["releases"], written, strict=True):
        for name in ("assigned", "funnel", "kept", "split"):
            assert explanation[name] == release[name]
    text = hsfiq("export", "--explain", *chosen).out
    for words in ("hpfiq-hp: nothing written", "straight-lining(run=2)", "matched"):
        assert words in text


@pytest.mark.usefixtures("in_folder")
def test_the_option_for_invalid_answers_is_the_filter() -> None:
    assert hsfiq("export", "--filter-invalid").code == 0
    again = hsfiq("export", "--filter", "invalid")
    assert again.out.count("unchanged; nothing was written") == 2
