"""What a request needs is found by indexes, however many answers the database has.

No time is measured: the plans are those of a tiny database. PostgreSQL reads small tables from end
to end whatever indexes there are, so it is told to do that only if there is no other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, UniqueConstraint, select, text

from benchmarks.query_plans import LARGE_TABLES, full_scans, recorded_statements
from hsfiq.collect.checks import check_results
from hsfiq.collect.participants import enrol, has_free_place
from hsfiq.collect.progress import answers_of, participants_of, progress_of
from hsfiq.collect.question_history import totals_now
from hsfiq.collect.review import win_shares
from hsfiq.collect.stages import completion_of, current_position
from hsfiq.db.engine import Database
from hsfiq.db.tables import METADATA, Form, Participant, Question, RetrievedSet, Study
from hsfiq.db.types import Base
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import Recruitment
from tests.studies import NOW, SMALL, Seat, draw, make_queries, row_of

CHECKED = Checks(arithmetic=True, gold=1, repeated=1, on_failure="pause")
BY_INDEX = ("seqscan", "hashjoin", "mergejoin", "bitmapscan", "material")


@pytest.fixture
def study_id(database: Database) -> int:
    """A study with checks, their rule, and a limit of participants."""
    forget_sizes(database)
    return draw(
        database,
        make_queries(database, {"shirt": 12, "dress": 12}),
        replace(SMALL, questions_per_form=3),
        checks=CHECKED,
        recruitment=Recruitment(participants=3, max_failed_checks=5),
    )


def forget_sizes(database: Database) -> None:
    """Empty the large tables, so that PostgreSQL knows no sizes from earlier tests.

    It reads the index of a table that it knows to be small from end to end.
    """
    with database.engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"TRUNCATE {', '.join(LARGE_TABLES)} CASCADE"))


def tables_read_from_end_to_end(database: Database, work: Callable[[], object]) -> set[str]:
    with recorded_statements() as recorded:
        work()
    assert recorded.queries()
    with database.engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            for way in BY_INDEX:
                connection.execute(text(f"SET LOCAL enable_{way} = off"))
        return {table for query in recorded.queries() for table in full_scans(connection, query)}


def test_a_submit_and_the_next_question_read_no_table_from_end_to_end(
    database: Database, study_id: int
) -> None:
    seat = Seat.taken(database, study_id)
    seat.answer_until(4)

    def submit_and_go_on() -> None:
        seat.submit(seat.question_ids[3])
        with database.writing() as session:
            current_position(session, row_of(session, seat.participant_id), NOW)

    assert not tables_read_from_end_to_end(database, submit_and_go_on)


def test_the_last_page_reads_no_table_from_end_to_end(database: Database, study_id: int) -> None:
    seat = Seat.taken(database, study_id)
    seat.answer_all()

    def finish() -> None:
        with database.reading() as session:
            completion_of(session, row_of(session, seat.participant_id), "done", 6)

    assert not tables_read_from_end_to_end(database, finish)


def test_an_arrival_reads_no_table_from_end_to_end(database: Database, study_id: int) -> None:
    Seat.taken(database, study_id)

    def arrive() -> None:
        with database.writing() as session:
            study = session.get_one(Study, study_id)
            assert has_free_place(session, study, NOW)
            enrol(session, study_id, now=NOW)

    assert not tables_read_from_end_to_end(database, arrive)


def test_the_studio_reads_no_other_studies_answers(database: Database, study_id: int) -> None:
    Seat.taken(database, study_id).answer_all()

    def show() -> None:
        with database.reading() as session:
            study = session.get_one(Study, study_id)
            for shown in (None, select(Participant.id).where(Participant.study_id == study_id)):
                answers = answers_of(session, study, shown)
                assert len(answers) == 10
                assert len(participants_of(session, study, shown)) == 1
                assert list(check_results(session, study, shown))
            win_shares(session, study)

    assert "responses" not in tables_read_from_end_to_end(database, show)


def test_the_progress_reads_only_the_answers_to_reassigned_questions(
    database: Database, study_id: int
) -> None:
    Seat.taken(database, study_id).answer_all()

    def show() -> None:
        with database.reading() as session:
            study = session.get_one(Study, study_id)
            assert progress_of(session, study).answered == 6
            assert totals_now(session, study).answered == 6

    with recorded_statements() as recorded:
        show()
    reading = [query.text for query in recorded.queries() if "FROM questions" in query.text]
    assert len(reading) == 1
    assert all("questions.handed_on" in query for query in reading)
    assert not {"responses", "questions"} & tables_read_from_end_to_end(database, show)


@pytest.mark.parametrize("table", [Question, RetrievedSet, Form])
def test_removing_a_row_finds_what_refers_to_it_by_an_index(table: type[Base]) -> None:
    """Both databases look for such rows at each removal."""
    referring = [
        (column.table.name, column.name)
        for other in METADATA.sorted_tables
        for column in other.columns
        for key in column.foreign_keys
        if key.column is table.__table__.c.id and not begins_an_index(column)
    ]
    assert referring == []


def begins_an_index(column: Column[Any]) -> bool:
    """Whether a key, a constraint or an index begins with the column."""
    table = column.table
    unique = [each for each in table.constraints if isinstance(each, UniqueConstraint)]
    columns = [next(iter(each.columns)) for each in (table.primary_key, *unique, *table.indexes)]
    return column in columns
