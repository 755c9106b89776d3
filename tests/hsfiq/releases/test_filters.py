"""Named filters: their names, straight-lining, and every rule that a dropped question broke."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.answer_rules import Answer, Times
from hsfiq.db.engine import Database
from hsfiq.errors import UnreadableInput
from hsfiq.kinds.rows import QueryRow, QuestionRow, RetrievedSetRow
from hsfiq.releases.filters import Filters, parse_filters
from hsfiq.releases.sieve import with_runs
from hsfiq.study.config import Design
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.releases.slow_questions import QuestionRows
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


def test_names_with_blanks_and_a_default() -> None:
    assert parse_filters([" too-fast( seconds = 2.50 ) ", "straight-lining"]) == Filters(
        min_seconds=2.5, straight_run=10
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("slow", "'slow' is not a filter; use one of invalid, failed-checks, unseen, too-fast("),
        ("too-fast", "'too-fast' is not how it is given; use too-fast(seconds=2)"),
        ("too-fast(2)", "'too-fast(2)' is not a filter"),
        ("too-fast(run=2)", "use too-fast(seconds=2)"),
        ("too-fast(seconds=-1)", "'-1' is not a valid value of seconds"),
        ("too-fast(seconds=nan)", "'nan' is not a valid value of seconds"),
        ("straight-lining(run=1)", "'1' is not a valid value of run"),
        ("straight-lining(run=2.5)", "'2.5' is not a valid value of run"),
        ("unseen(share=1)", "'unseen(share=1)' is not how it is given; use unseen"),
        ("", "'' is not a filter"),
    ],
)
def test_unknown_names_and_values_are_refused(name: str, message: str) -> None:
    with pytest.raises(UnreadableInput) as error_info:
        parse_filters([name])
    assert str(error_info.value).startswith("--filter: ")
    assert message in str(error_info.value)


def test_a_filter_is_given_once() -> None:
    with pytest.raises(UnreadableInput, match="too-fast is given twice"):
        parse_filters(["too-fast(seconds=1)"], Filters(min_seconds=1.0))


# ---------------------------------------------------------------------------------- straight-lining


def question(participant: str, place: int, value: int | None, *, judged: bool) -> QuestionRow:
    """A question whose participant and answer alone matter."""
    query = QueryRow(0, "t", "t", "small", "", None, "r", "t", "is red", "is red", [])
    scores = None if judged else value
    return QuestionRow(
        question_id=f"{participant}.form.{place}", participant_id=participant, form="form",
        category="", place=place, pair_id="t/0", swapped=False, query=query, text="is red",
        sets=(RetrievedSetRow(None, []),), orders=(None,), participant_status="active",
        reassigned=False, check=None, skipped=None, score_1=scores, score_2=scores,
        preferred=scores, irrelevant=False, reason=None, revision=int(value is not None),
        served_at=None, first_interaction_at=None, submitted_at=None, active_seconds=None,
        failed_checks=None, images=None, text_version=None,
        judgement={"score": value} if judged and value is not None else None,
    )  # fmt: skip


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
        questions.append(question(f"p{person}", place, value, judged=judged))
    with_runs(QuestionRows(questions))
    assert [each.run for each in questions] == [
        run_by_definition(questions, place) for place in range(len(questions))
    ]


def answer(score_1: int, score_2: int, preferred: int, seconds: float, **fields: Any) -> Answer:
    times = Times(NOW, NOW, NOW, seconds)
    return pair_answer(score_1, score_2, preferred, times=times, **fields)


@pytest.fixture
def study(database: Database) -> Database:
    """A participant of four questions: three answers are the same, one of them fast and flagged."""
    queries = make_queries(database, length=5)
    key = draw(database, queries, Design(questions_per_form=4, forms_per_participant=1, seed=1))
    seat = Seat.taken(database, key)
    for number, given_answer in enumerate(
        (
            answer(4, 2, 1, 9),
            answer(4, 2, 1, 1, irrelevant=True),
            answer(4, 2, 1, 9),
            answer(1, 5, 1, 1),
        )
    ):
        seat.submit(seat.question_ids[number], given_answer)
    return database


def broken(filters: Filters, study: Database) -> dict[str, list[str]]:
    release = release_of(study, "hp", filters)
    return {row["question_id"][-1]: row["rules"] for row in rows(release, "exclusions")}


def test_straight_lining_drops_the_answers_of_the_run(study: Database) -> None:
    release = release_of(study, "hp", Filters(straight_run=3))
    assert {row["value"] for row in rows(release, "exclusions")} == {"3 the same in a row"}
    assert [row["question_id"] for row in rows(release, "preferences")] == ["p1.form_1.3"]
    assert broken(Filters(straight_run=4), study) == {}


@on_sqlite
def test_a_dropped_question_has_all_rules_that_it_broke(study: Database) -> None:
    filters = Filters(invalid=True, min_seconds=2.0, straight_run=4)
    release = release_of(study, "hp", filters)
    excluded = {row["question_id"][-1]: row for row in rows(release, "exclusions")}
    assert {key: (row["rules"], row["values"]) for key, row in excluded.items()} == {
        "1": (["irrelevant", "too-fast(seconds=2)"], ["flagged", "1.0 seconds"]),
        "3": (
            ["contradicts", "too-fast(seconds=2)"],
            ["prefers set 1, scores 1 and 5", "1.0 seconds"],
        ),
    }
    for row in excluded.values():
        assert (row["rule"], row["value"]) == (row["rules"][0], row["values"][0])
    manifest = json.loads(release.files["manifest.json"])
    assert manifest["filters"] == [
        {"name": "invalid", "parameters": {}},
        {"name": "too-fast", "parameters": {"seconds": 2.0}},
        {"name": "straight-lining", "parameters": {"run": 4}},
    ]
    steps = manifest["funnel"]["steps"]
    assert sum(step["dropped"] for step in steps) == len(excluded)
    for step in steps:
        names = [rule for row in excluded.values() for rule in row["rules"]]
        assert step["broken_by"] == names.count(step["rule"])
        first = [row["rule"] for row in excluded.values()]
        assert step["dropped"] == first.count(step["rule"])


# ------------------------------------------------------------------------------------ the command


def test_explain_prints_the_funnel_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    write_imported_answers()
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
    assert "hpfiq-hp: nothing written" in text
    assert "straight-lining(run=2)" in text
    assert "broke it" in text


def test_the_older_options_are_the_same_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    write_imported_answers()
    older = ("--filter-invalid", "--drop-failed-checks", "--drop-unseen", "--min-seconds", "2")
    names = ("invalid", "failed-checks", "unseen", "too-fast(seconds=2)")
    assert hsfiq("export", *older).code == 0
    again = hsfiq("export", *(part for name in names for part in ("--filter", name)))
    assert again.out.count("unchanged, nothing written") == 2
