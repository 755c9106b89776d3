"""Questions as columns: the same as row by row, which is slower and obvious."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlalchemy import delete, select

from benchmarks import million_answers
from hsfiq.answer_rules import IMAGE_STATES, contradicts
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study
from hsfiq.kinds import KINDS
from hsfiq.kinds.pair import PREFERENCES
from hsfiq.kinds.rows import QuestionRow, set_rows
from hsfiq.kinds.tables import REASONS, SETS
from hsfiq.releases import questions as forms
from hsfiq.releases.dropping_rules import Sieve, rules, with_runs
from hsfiq.releases.question_columns import QuestionColumns, QuestionReader, set_columns
from hsfiq.releases.questions import forms_together, read_forms
from hsfiq.releases.table_files import as_table, with_dictionaries
from hsfiq.study.filters import Filters
from tests.hsfiq.releases.slow_questions import QuestionRows, RowReader
from tests.hsfiq.releases.small_releases import small_study_of
from tests.hsfiq.samples import release_of
from tests.studies import NOW

ALL = Filters(invalid=True, failed_checks=True, unseen=True, min_seconds=2.0, straight_run=2)
TEXTS = (None, None, 'is "red"', "kürzer\\", "", "write to kim@example.org", "NULL", "t,\n1,\r\n")


def vary(database: Database, rng: Random) -> None:
    """Give the study everything that a study of pairs can have."""
    with database.writing() as session:
        for participant in session.scalars(select(Participant)):
            participant.status = rng.choice(["active", "active", "active", "excluded"])
        for form in session.scalars(select(Form).where(Form.position == 1)):
            form.position = 10  # so that forms are not in the order of their keys
        for question in session.scalars(select(Question)):
            question.order_1, question.order_2 = order(rng), order(rng)
            question.reassigned = rng.random() < 0.05
            question.text = rng.choice(TEXTS)
        responses = list(session.scalars(select(Response)))
        for response in responses:
            vary_response(response, rng)
            if rng.random() < 0.2:
                session.add(revision_of(response, rng))
        session.flush()
        unanswered = rng.sample(responses, len(responses) // 10)
        keys = [response.question_id for response in unanswered]
        session.execute(delete(Response).where(Response.question_id.in_(keys)))
        for form in session.scalars(select(Form)):
            if rng.random() < 0.5:
                session.add_all(checks_of(form, list(session.scalars(
                    select(Question.id).where(Question.form_id == form.id).order_by(Question.place)
                ))))  # fmt: skip


def order(rng: Random) -> list[int] | None:
    return rng.choice([None, rng.sample(range(5), 5)])


def vary_response(response: Response, rng: Random) -> None:
    response.score_1, response.score_2 = rng.choice([2, 3]), rng.choice([2, 3])
    response.preferred = rng.choice([0, 1, 2])
    response.irrelevant = rng.choice([None, False, False, True])
    response.reason = rng.choice(TEXTS)
    response.confirmed = rng.choice([None, True, False])
    response.active_seconds = rng.choice([None, 0.0, 1.25, rng.uniform(0, 1e12), 1e-7, 3.0])
    times = [rng.choice([None, NOW + timedelta(microseconds=rng.randrange(10**8))]) for _ in "123"]
    response.served_at, response.first_interaction_at, response.submitted_at = times
    letters = "".join(state[0] for state in IMAGE_STATES)
    groups = ["".join(rng.choices(letters + "ssss", k=k)) for k in (rng.choice([0, 1]), 5, 5)]
    response.images = rng.choice([None, " ".join(groups), "s sssss sssss"])
    response.text_version, response.language = rng.choice([None, 1, 2]), rng.choice([None, "en"])
    if rng.random() < 0.05:
        response.skipped = "missing image"
        response.score_1 = response.score_2 = response.preferred = None


def revision_of(response: Response, rng: Random) -> Response:
    names = [column.name for column in Response.__table__.columns]
    values = {name: getattr(response, name) for name in names}
    own = {"id": response.id + 1000, "revision": response.revision + 2}
    again = Response(**values | own | {"submit_key": f"again-{response.id}"})
    again.active_seconds = rng.choice([None, 0.1, 0.2])
    return again


def checks_of(form: Form, keys: list[int]) -> list[Check]:
    gold, first, *_, again = keys
    return [
        Check(form_id=form.id, place=0, kind="gold", question_id=gold, expected="1"),
        Check(form_id=form.id, place=1, kind="repeat", question_id=again, repeats_id=first),
    ]


@pytest.fixture
def varied(database: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """4 participants with 2 forms of 25 questions."""
    rng = Random(1)
    monkeypatch.setattr(million_answers, "QUERIES", 15)
    monkeypatch.setattr(million_answers, "IMAGES", 40)
    with database.engine.begin() as connection:
        million_answers.fill_database(connection, rng, 200)
    vary(database, rng)
    return database


@contextmanager
def read_both(database: Database) -> Iterator[list[tuple[QuestionColumns, QuestionRows]]]:
    """The study's questions by columns and as rows, in small parts."""
    with database.reading() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "QUESTIONS_AT_ONCE", 60)
        (study,) = list_studies(session)
        by_columns, by_rows = QuestionReader(session, study), RowReader(session, study)
        parts = list(forms_together(read_forms(session, study)))
        yield [(by_columns.read(part), by_rows.read(part)) for part in parts]


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(
        json.dumps(row, ensure_ascii=False, default=lambda time: time.isoformat()) + "\n"
        for row in rows
    ).encode()


def test_questions_are_the_same(varied: Database) -> None:
    with read_both(varied) as parts:
        for questions, rows in parts:
            assert list(questions) == rows
            assert questions[2:4] == rows[2:4]
            for name in ("query", "question_id", "participant_id"):
                assert questions.values(name) == rows.values(name)
            for name in ("irrelevant", "failed_checks", "images", "active_seconds"):
                assert questions.knows(name) == rows.knows(name)
            assert list(questions.having("reason")) == rows.having("reason")
            assert questions.queries() == rows.queries()
            assert questions.participants() == rows.participants()


@pytest.mark.parametrize("asked", KINDS)
def test_questions_of_every_kind_are_the_same(database: Database, asked: str) -> None:
    key = small_study_of(database, asked)
    with database.reading() as session:
        study = session.get_one(Study, key)
        parts = list(forms_together(read_forms(session, study)))
        reader, slow = QuestionReader(session, study), RowReader(session, study)
        for part in parts:
            questions, rows = reader.read(part), slow.read(part)
            assert list(questions) == rows
            assert with_runs(questions).values("run") == with_runs(rows).values("run")
            assert questions.knows("search") == rows.knows("search")
            assert questions.values("is_left_search") == rows.values("is_left_search")


def contradiction(row: QuestionRow) -> str | None:
    """The preferred set has the strictly lower score."""
    if row.preferred is None or row.score_1 is None or row.score_2 is None:
        return None
    if not contradicts(row.preferred, row.score_1, row.score_2):
        return None
    return f"prefers set {row.preferred}, scores {row.score_1} and {row.score_2}"


def not_painted(row: QuestionRow) -> str | None:
    if row.images is None or row.images.are_painted:
        return None
    return f"{row.images.n_painted} of {len(row.images)} images painted"


SLOW_RULES: dict[str, Callable[[QuestionRow], str | None]] = {
    "handed-on": lambda row: "left by its participant" if row.reassigned else None,
    "check": lambda row: row.check,
    "unanswered": lambda row: None if row.revision else "no response",
    "skipped": lambda row: row.skipped,
    "excluded": lambda row: (
        "participant excluded" if row.participant_status == "excluded" else None
    ),
    "irrelevant": lambda row: "flagged" if row.irrelevant else None,
    "contradicts": contradiction,
    "failed-checks": lambda row: f"{row.failed_checks} failed" if row.failed_checks else None,
    "unseen": not_painted,
    "too-fast(seconds=2)": lambda row: (
        None
        if row.active_seconds is None or row.active_seconds >= 2
        else f"{row.active_seconds} seconds"
    ),
    "straight-lining(run=2)": lambda row: (
        None if row.run is None or row.run < 2 else f"{row.run} the same in a row"
    ),
}
"""For what each rule of `ALL` drops a question; None if it keeps it."""


def test_rules_are_the_same(varied: Database) -> None:
    broken: set[str] = set()
    with read_both(varied) as parts:
        for columns, rows in parts:
            questions, with_run = with_runs(columns), with_runs(rows)
            for rule in rules("hp", ALL):
                expected = [SLOW_RULES[rule.name](row) for row in rows]
                is_broken = [value is not None for value in expected]
                for each in (questions, with_run):
                    assert rule.broken_by(each).to_pylist() == is_broken
                    values = [rule.value(row) for row in each.filter(pa.array(is_broken))]
                    assert values == [value for value in expected if value is not None]
                broken |= {rule.name for value in expected if value is not None}
            assert list(questions) == rows
    assert broken == {rule.name for rule in rules("hp", ALL)}


def test_tables_are_the_same(varied: Database) -> None:
    with read_both(varied) as parts:
        for columns, every in parts:
            questions = columns.having("score_1")
            rows = every.having("score_1")
            preferences = {name: questions.column(name) for name in PREFERENCES.names}
            expected = [{name: getattr(row, name) for name in PREFERENCES.names} for row in rows]
            schema = PREFERENCES.arrow()
            assert as_table(preferences, schema) == pa.Table.from_pylist(expected, schema)
            expected = [
                each for row in rows for each in set_rows(row, score=(row.score_1, row.score_2))
            ]
            table = as_table(set_columns(questions), SETS.arrow())
            assert table == pa.Table.from_pylist(expected, SETS.arrow())


def test_runs_of_answers_are_the_same(varied: Database) -> None:
    with read_both(varied) as parts:
        for questions, rows in parts:
            assert list(questions.revisions()) == list(rows.revisions())
            answered = questions.having("score_1")
            assert list(answered.revisions()) == list(rows.having("score_1").revisions())
        assert not list(questions.filter(pc.less(questions.data["place"], 0)).revisions())


def test_dictionaries_have_only_values_of_the_rows(varied: Database) -> None:
    schema, sets_schema = PREFERENCES.arrow(), SETS.arrow()
    with read_both(varied) as parts:
        for columns, _ in parts:
            answered = columns.having("score_1")
            questions = answered.filter(pc.equal(answered.data["place"], 3))
            preferences = {name: questions.column(name) for name in PREFERENCES.names}
            table = as_table(preferences, with_dictionaries(schema))
            assert table.cast(schema) == as_table(preferences, schema)
            for name in ("participant_id", "pair_id", "text", "system_1", "language"):
                values = table[name].combine_chunks()
                assert set(values.dictionary.to_pylist()) == set(values.drop_null().to_pylist())
            sets = as_table(set_columns(questions), with_dictionaries(sets_schema))
            assert sets.to_pylist() == as_table(set_columns(questions), sets_schema).to_pylist()
            images = sets["image_ids"].combine_chunks().values
            assert set(images.dictionary.to_pylist()) == set(images.to_pylist())


@pytest.mark.parametrize("filters", [Filters(), ALL])
def test_releases_are_the_same(varied: Database, filters: Filters) -> None:
    release = release_of(varied, "hs", filters)
    with varied.reading() as session:
        (study,) = list_studies(session)
        sieve = Sieve("hs", filters)
        kept, _, excluded = sieve.sift(RowReader(session, study).read(read_forms(session, study)))
    assert sieve.funnel() == release.funnel
    expected = {
        "preferences": [{name: getattr(row, name) for name in PREFERENCES.names} for row in kept],
        "sets": [each for row in kept for each in set_rows(row, score=(row.score_1, row.score_2))],
        "exclusions": [exclusion.row() for exclusion in excluded],
        "reasons": [{name: getattr(row, name) for name in REASONS.names}
                    for row in kept if row.reason is not None],
    }  # fmt: skip
    for name, rows in expected.items():
        assert release.files.get(f"{name}.jsonl", b"") == lines(rows)
    of_suspects = [row.question_id for row in kept if "@" in (row.reason or "")]
    warning = next((each for each in release.warnings if "e-mail" in each), "")
    assert warning.startswith(f"{len(of_suspects)} text") or not of_suspects
    assert all(f"the reason of {name}" in warning for name in of_suspects[:5])
