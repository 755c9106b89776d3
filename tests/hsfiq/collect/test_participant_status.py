"""A participant's status: withdrawn, excluded, paused, resumed."""

from __future__ import annotations

from collections import Counter

import pytest

from hsfiq.collect.participants import STATUSES
from hsfiq.collect.progress import progress_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import NotOpen, Refused
from tests.hsfiq.collect.study_participants import (
    counted_answers,
    enrolled,
    live_questions,
    one_form_each,
)
from tests.hsfiq.samples import release_of, rows
from tests.studies import Seat


@pytest.mark.parametrize("status", ["returned", "screened-out"])
def test_a_withdrawn_participant_keeps_their_answers(database: Database, status: str) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    first.answer_until(3)
    question_ids = first.question_ids
    first.set_status(status)
    with pytest.raises(NotOpen, match=f"your participation in this study is {status}"):
        first.submit(question_ids[2])
    second = Seat.taken(database, study)  # at once: no lease is waited for
    assert second.standing().total == 2
    second.answer_all()
    assert counted_answers(database) == Counter(dict.fromkeys(live_questions(database), 1))
    assert [row["participant_id"] for row in rows(release_of(database), "preferences")] == [
        "p1", "p1", "p2", "p2",
    ]  # fmt: skip


def test_excluded_answers_leave_releases_and_are_reassigned(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    first.answer_until(4)
    first.set_status("excluded")
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study))
    assert (progress.questions, progress.answered) == (4, 0)
    second = Seat.taken(database, study)
    assert second.standing().total == 4
    second.answer_until(3)
    release = release_of(database)
    assert {row["participant_id"] for row in rows(release, "preferences")} == {"p2"}
    assert [(step.rule, step.dropped, step.left) for step in release.funnel.steps] == [
        ("handed-on", 4, 4), ("unanswered", 2, 2), ("skipped", 0, 2), ("excluded", 0, 2),
    ]  # fmt: skip
    first.set_status("active")  # too late: their questions are somebody else's now
    assert first.standing().total == 0
    assert {row["participant_id"] for row in rows(release_of(database), "preferences")} == {"p2"}
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study))
    assert (progress.questions, progress.answered, progress.participants) == (4, 2, 2)


def test_an_exclusion_may_be_undone_before_reassignment(database: Database) -> None:
    first = Seat.taken(database, one_form_each(database))
    first.answer_until(3)
    first.set_status("excluded")
    with pytest.raises(Exception, match=r"nothing to export .*unanswered -2, .*excluded -2"):
        release_of(database)
    first.set_status("active")
    assert len(rows(release_of(database), "preferences")) == 2
    first.answer_all()
    assert first.standing().answered == 4


def test_paused_participants_cannot_answer_until_resumed(database: Database) -> None:
    study = one_form_each(database)
    seat = Seat.taken(database, study)
    seat.set_status("paused")
    with pytest.raises(NotOpen, match="your participation in this study is paused"):
        seat.submit(seat.question_ids[0])
    assert enrolled(database, study) is None  # their questions stay theirs for the lease
    seat.set_status("active")
    for question in seat.question_ids[:2]:
        seat.submit(question)
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    seat.set_status("paused")
    with pytest.raises(NotOpen, match="your participation in this study is paused"):
        seat.try_check(check.check_id, "12")
    seat.set_status("active")
    seat.answer_all()


def test_an_unknown_status_is_refused(database: Database) -> None:
    seat = Seat.taken(database, one_form_each(database))
    for status in STATUSES:
        seat.set_status(status)
        assert seat.participant().status == status
    with pytest.raises(Refused, match="'asleep' is not a status: active, paused, returned"):
        seat.set_status("asleep")
