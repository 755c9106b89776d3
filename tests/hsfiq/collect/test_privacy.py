"""What is stored and published about a participant, and what remains after forgetting."""

from __future__ import annotations

from sqlalchemy import func, select

from hsfiq.collect import participants
from hsfiq.collect.participant_row import ANSWER_COUNTS
from hsfiq.db.engine import Database
from hsfiq.db.tables import CheckAnswer, Participant, Question, Response
from hsfiq.db.types import digest_of
from hsfiq.study.filters import Filters
from tests.hsfiq.collect.study_participants import (
    enrolled,
    forget,
    live_questions,
    one_form_each,
    serve,
)
from tests.hsfiq.samples import release_of
from tests.studies import NOW, OTHER, Seat, draw, make_queries, pair_answer


def test_no_personal_data_are_stored() -> None:
    """No address, browser or name: each new column must be added here deliberately."""
    columns = {table: set(table.__table__.columns.keys()) for table in (Participant, Response)}
    assert columns[Participant] == {
        "id", "study_id", "name", "token_hash", "category", "status", "source", "external_id",
        "platform_study_id", "created_at", "consented_at", "practised_at", "enrolled_at", "seen_at",
        "language", "n_painted", "n_not_painted", "n_painting_unknown", "n_skipped", "n_revisions",
        "platform_session_id",
    }  # fmt: skip
    assert columns[Response] == {
        "id", "question_id", "revision", "submit_key", "score_1", "score_2", "preferred",
        "confirmed", "irrelevant", "reason", "skipped", "served_at", "first_interaction_at",
        "submitted_at", "active_seconds", "images", "judgement", "text_version", "language",
        "extra", "text_in_view",
    }  # fmt: skip
    assert set(CheckAnswer.__table__.columns.keys()) == {
        "id", "check_id", "given", "passed", "answered_at",
    }  # fmt: skip


def test_a_release_contains_neither_token_nor_platform_id(database: Database) -> None:
    key = enrolled(
        database,
        one_form_each(database),
        source="prolific",
        external_id="5f1e-id",
        platform_study_id="64ab-study",
    )
    assert key is not None
    Seat(database, key).submit(Seat(database, key).question_ids[0], pair_answer(4, 2, 1))
    token = Seat(database, key).known_token()
    digest = Seat(database, key).participant().token_hash
    for kind in ("hs", "hp"):
        for data in release_of(database, kind, Filters(invalid=True)).files.values():  # type: ignore[arg-type]
            assert token.encode() not in data
            assert digest.encode() not in data
            assert b"5f1e-id" not in data
            assert b"64ab-study" not in data


def test_nothing_remains_of_a_forgotten_participant(database: Database) -> None:
    study = one_form_each(database)
    key = enrolled(database, study, source="prolific", external_id="5f1e", platform_study_id="64ab")
    assert key is not None
    seat = Seat(database, key)
    token = seat.known_token()
    serve(database, seat.question_ids[0], NOW)
    seat.answer_until(4)
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    assert forget(database, key) == 3
    with database.reading() as session:
        for table in (Response, CheckAnswer):
            assert session.scalars(select(table)).all() == []
        assert session.scalars(select(Question).where(Question.served_at.is_not(None))).all() == []
        assert participants.by_token(session, token) is None
        remaining = session.get_one(Participant, key)
        kept = {
            column.key: getattr(remaining, column.key)
            for column in Participant.__table__.columns
            if getattr(remaining, column.key) is not None
        }
    counts = {name: kept.pop(name) for name in (*ANSWER_COUNTS, "n_revisions")}
    assert not any(counts.values())
    assert set(kept) == {"id", "study_id", "name", "token_hash", "category", "status", "source"}
    assert (kept["name"], kept["status"]) == ("p1", "returned")
    assert kept["token_hash"] != digest_of(token)
    new_key = enrolled(database, study, source="prolific", external_id="5f1e")
    assert new_key not in (None, key)
    assert Seat(database, new_key).participant().name == "p2"  # type: ignore[arg-type]
    assert Seat(database, new_key).standing().total == 4  # type: ignore[arg-type]
    assert forget(database, key) == 0


def test_forgetting_changes_no_other_participant(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 16}))
    seats = [Seat.taken(database, study) for _ in range(3)]
    for seat in seats:
        seat.answer_all()
    forget(database, seats[1].participant_id)
    assert [seat.standing().answered for seat in seats] == [4, 0, 4]
    with database.reading() as session:
        assert session.scalar(select(func.count(CheckAnswer.id))) == 2


def test_forgetting_an_excluded_participant_reassigns_nothing_twice(database: Database) -> None:
    study = one_form_each(database)
    seat = Seat.taken(database, study)
    seat.answer_all()
    seat.set_status("excluded")
    Seat.taken(database, study).answer_until(2)
    forget(database, seat.participant_id)
    assert enrolled(database, study) is None
    assert set(live_questions(database).values()) == {1}
