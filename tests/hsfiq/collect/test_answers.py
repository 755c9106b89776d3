"""Responses: what is stored of an answer, and which answers are refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from hsfiq.answer_rules import LONGEST_REASON, Times
from hsfiq.collect.answers import Skip, submit
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Question, Response
from hsfiq.errors import Forbidden, NotOpen, Refused
from tests.studies import (
    GOOD,
    NOW,
    OTHER,
    SHOWN,
    SKIP,
    Seat,
    changed,
    draw,
    make_queries,
    own_environment,
    responses,
    row_of,
    set_status,
    small_study,
    values,
)


def test_an_answer_is_stored_as_revision_1(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    times = Times(NOW, NOW + timedelta(seconds=2), NOW + timedelta(seconds=9), 8.25)
    answer = replace(OTHER, times=times)
    assert seat.submit(question, answer, key="a press") == 1
    (row,) = responses(database, question)
    assert values(row) == OTHER
    assert (row.revision, row.submit_key, row.skipped) == (1, "a press", None)
    assert times == Times(
        row.served_at, row.first_interaction_at, row.submitted_at, row.active_seconds
    )


def test_an_empty_reason_is_stored_as_null(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    seat.submit(question, replace(GOOD, reason=""))
    assert responses(database, question)[0].reason is None


@pytest.mark.parametrize(
    "reason",
    [
        "<script>alert(1)</script>",
        "\u202eright to left\u202c",
        "\N{DRESS} 옷",
        "a\n\tb",
        "x" * 10_000,
    ],
    ids=["markup", "direction", "emoji", "lines", "long"],
)
def test_a_reason_is_stored_verbatim(database: Database, seat: Seat, reason: str) -> None:
    question = seat.question_ids[0]
    seat.submit(question, replace(GOOD, reason=reason))
    assert responses(database, question)[0].reason == reason


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("x" * (LONGEST_REASON + 1), "longer than 10,000 characters"),
        ("a\0b", "characters that cannot be stored"),
        ("half of an emoji: \ud83d", "characters that cannot be stored"),
    ],
    ids=["too long", "NUL", "lone surrogate"],
)
def test_a_reason_that_cannot_be_kept_is_refused(
    database: Database, seat: Seat, reason: str, message: str
) -> None:
    question = seat.question_ids[0]
    with pytest.raises(Refused, match=message):
        seat.submit(question, replace(GOOD, reason=reason))
    assert responses(database, question) == []


def test_a_skip_holds_no_scores_and_can_be_revised(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    seat.submit(question, replace(SKIP, served_at=NOW, submitted_at=NOW))
    (row,) = responses(database, question)
    assert (row.score_1, row.score_2, row.preferred) == (None, None, None)
    assert (row.skipped, row.irrelevant) == ("missing-image", False)
    assert seat.standing().answered == 1
    assert seat.submit(question, GOOD, revision=1) == 2


def test_a_skip_needs_an_image_that_is_not_there() -> None:
    assert Skip(replace(SHOWN, reference="unloaded")).reason == "unloaded-image"
    with pytest.raises(Refused, match="can be skipped"):
        Skip(replace(SHOWN, reference="loaded"))


# ------------------------------------------------------------------------------------------ images


def stored_images(database: Database, question: int) -> list[str | None]:
    return [row.images for row in responses(database, question)]


def test_the_states_of_the_images_are_stored(database: Database, seat: Seat) -> None:
    question, other = seat.question_ids[:2]
    seat.submit(question, replace(GOOD, images=replace(SHOWN, reference="enlarged")))
    seat.submit(other)
    assert stored_images(database, question) == ["e ss ss"]
    assert stored_images(database, other) == [None]


def test_what_was_seen_for_an_earlier_revision_counts(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    unscrolled = replace(SHOWN, sets=(("shown", "shown"), ("loaded", "loaded")))
    seat.submit(question, SKIP)
    seat.submit(question, replace(GOOD, images=SHOWN), revision=1)
    seat.submit(question, replace(OTHER, images=unscrolled), revision=2)
    seat.submit(question, SKIP, revision=3)
    assert stored_images(database, question) == ["m ss ss", *["s ss ss"] * 3]


def test_after_an_unknown_revision_only_complete_states_are_known(
    database: Database, seat: Seat
) -> None:
    question = seat.question_ids[0]
    seat.submit(question, GOOD)
    seat.submit(question, replace(OTHER, images=replace(SHOWN, reference="loaded")), revision=1)
    seat.submit(question, replace(GOOD, images=SHOWN), revision=2)
    assert stored_images(database, question) == [None, None, "s ss ss"]


def test_a_repeated_submit_may_report_other_images(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    first = replace(GOOD, images=replace(SHOWN, reference="loaded"))
    for answer in (first, replace(GOOD, images=SHOWN)):
        assert seat.submit(question, answer, key="one-press") == 1
    assert stored_images(database, question) == ["l ss ss"]


def test_a_tie_is_refused_unless_the_study_allows_it(database: Database, seat: Seat) -> None:
    tie = changed(GOOD, preferred=0)
    with pytest.raises(Refused, match="does not allow ties"):
        seat.submit(seat.question_ids[0], tie)
    assert responses(database, seat.question_ids[0]) == []


def test_a_tie_is_kept_where_the_study_allows_it(database: Database) -> None:
    seat = Seat.taken(database, small_study(database, preference_ties=True))
    tie = changed(GOOD, preferred=0)
    seat.submit(seat.question_ids[0], tie)
    assert values(responses(database, seat.question_ids[0])[0]) == tie


@pytest.mark.parametrize("status", ["draft", "paused", "closed"])
def test_a_study_that_is_not_open_stores_nothing(
    database: Database, study: int, seat: Seat, status: str
) -> None:
    seat.submit(seat.question_ids[0])
    set_status(database, study, status)
    for question, revision in zip(seat.question_ids[:2], (1, 0), strict=True):
        with pytest.raises(NotOpen, match=f"this study is {status}"):
            seat.submit(question, OTHER, revision=revision)
    assert len(responses(database, seat.question_ids[0])) == 1
    assert responses(database, seat.question_ids[1]) == []


def test_another_participants_question_is_forbidden(
    database: Database, study: int, seat: Seat
) -> None:
    other_seat = Seat.taken(database, study)
    for question in other_seat.question_ids:
        with pytest.raises(Forbidden, match="this question cannot be answered now"):
            seat.submit(question)
        assert responses(database, question) == []


def test_an_unassigned_question_is_forbidden(database: Database, seat: Seat) -> None:
    with database.reading() as session:
        free = session.scalars(
            select(Question.id).join(Question.form).where(Form.participant_id.is_(None))
        ).first()
    assert free is not None
    with pytest.raises(Forbidden):
        seat.submit(free)
    for missing in (10**6, -1):
        with database.writing() as session:
            participant = row_of(session, seat.participant_id)
            with pytest.raises(Forbidden):
                submit(session, participant, missing, GOOD, expected_revision=0, submit_key="press")


def test_a_question_beyond_the_current_one_is_forbidden(database: Database, seat: Seat) -> None:
    for question in seat.question_ids[1:]:
        with pytest.raises(Forbidden):
            seat.submit(question)
        assert responses(database, question) == []
    seat.submit(seat.question_ids[0])
    assert seat.submit(seat.question_ids[1]) == 1


def test_a_question_behind_an_unpassed_check_is_forbidden(seat: Seat) -> None:
    seat.answer_until(2)
    seat.submit(seat.question_ids[1])
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    with pytest.raises(Forbidden):
        seat.submit(seat.question_ids[2])
    seat.try_check(check.check_id, "wrong")
    with pytest.raises(Forbidden):
        seat.submit(seat.question_ids[2])
    seat.pass_check(check.check_id)
    assert seat.submit(seat.question_ids[2]) == 1


def test_many_participants_answer_at_once(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 48}))
    seats = [Seat.taken(database, study) for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(Seat.answer_all, seats))
    with database.reading() as session:
        rows = session.scalars(select(Response)).all()
    assert len({row.question_id for row in rows}) == len(rows) == 48


SUBMIT_AND_DIE = """
import os, signal, sys
from hsfiq.collect.answers import submit
from hsfiq.db.engine import open_database
from tests.studies import GOOD, row_of
url, participant_id, question_id, when = sys.argv[1:]
database = open_database(url)
with database.writing() as session:
    participant = row_of(session, int(participant_id))
    submit(
        session, participant, int(question_id), GOOD, expected_revision=0, submit_key="a press"
    )
    participant.store(session)
    if when == "before the commit":
        os.kill(os.getpid(), signal.SIGKILL)
print("acknowledged", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("moment", "output", "n_rows"),
    [("before the commit", "", 0), ("after the commit", "acknowledged\n", 1)],
)
def test_acknowledged_answers_survive_a_kill(
    database: Database, database_url: str, seat: Seat, moment: str, output: str, n_rows: int
) -> None:
    question = seat.question_ids[0]
    process = subprocess.run(
        [sys.executable, "-c", SUBMIT_AND_DIE, database_url, str(seat.participant_id),
         str(question), moment],
        env=own_environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stdout, process.stderr) == (-signal.SIGKILL, output, "")
    assert [values(row) for row in responses(database, question)] == [GOOD] * n_rows
    assert seat.submit(question, GOOD, key="a press") == 1  # the browser asks again
    assert len(responses(database, question)) == 1
