"""Taking forms, standing somewhere, answering: on both databases, and by many at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from hsfiq.answers import LONGEST_REASON, Answer, Times
from hsfiq.collect import participants
from hsfiq.collect.progress import progress_of
from hsfiq.collect.responses import Skip, latest_response
from hsfiq.collect.steps import load_question, mark_served, shown_sets
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.errors import Conflict, Forbidden, NotOpen, Refused
from tests.studies import (
    GOOD,
    NOW,
    OTHER,
    SMALL,
    Seat,
    draw,
    make_queries,
    own_environment,
    responses,
    set_status,
    small_study,
    values,
)


@pytest.fixture
def study(database: Database) -> int:
    return small_study(database)


@pytest.fixture
def seat(database: Database, study: int) -> Seat:
    return Seat.taken(database, study)


def forms_of(database: Database, participant_id: int) -> list[Form]:
    with database.reading() as session:
        statement = (
            select(Form).where(Form.participant_id == participant_id).order_by(Form.position)
        )
        return list(session.scalars(statement))


def participant(database: Database, participant_id: int) -> Participant:
    with database.reading() as session:
        return session.get_one(Participant, participant_id)


# ----------------------------------------------------------------------------------- participants


def test_enrolment_assigns_complete_forms_of_one_category(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 8}))
    form_ids = []
    for _ in range(3):
        seat = Seat.taken(database, study)
        forms = forms_of(database, seat.participant_id)
        assert [(form.position, form.name) for form in forms] == [(1, "form_1"), (2, "form_2")]
        assert {form.category for form in forms} == {
            participant(database, seat.participant_id).category
        }
        form_ids += [form.id for form in forms]
    assert len(form_ids) == len(set(form_ids)) == 6


def test_the_category_with_most_forms_left_comes_first(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 12, "toptee": 8}))
    seats = [Seat.taken(database, study) for _ in range(6)]
    categories = [participant(database, seat.participant_id).category for seat in seats]
    assert categories == ["shirt", "shirt", "toptee", "dress", "shirt", "toptee"]


def test_a_full_study_refuses_enrolment(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(2)]
    with pytest.raises(NotOpen, match="study small: every form is taken"):
        Seat.taken(database, study)
    with database.reading() as session:
        assert len(session.scalars(select(Participant)).all()) == len(seats)


@pytest.mark.parametrize("status", ["draft", "paused", "closed"])
def test_only_an_open_study_accepts_enrolment(database: Database, study: int, status: str) -> None:
    set_status(database, study, status)
    with pytest.raises(NotOpen, match=f"this study is {status}"):
        Seat.taken(database, study)


def test_pseudonyms_are_numbered_and_tokens_reveal_nothing(database: Database, study: int) -> None:
    first, second = (
        participant(database, Seat.taken(database, study).participant_id) for _ in range(2)
    )
    assert (first.name, second.name) == ("p1", "p2")
    assert first.created_at == NOW
    assert first.token != second.token
    assert min(len(first.token), len(second.token)) >= 32


def test_each_study_counts_its_own_participants(database: Database) -> None:
    queries = make_queries(database)
    for name in ("one", "another"):
        seat = Seat.taken(database, draw(database, queries, name=name))
        assert participant(database, seat.participant_id).name == "p1"


def test_twenty_at_once_share_no_form(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 24, "shirt": 24}))  # room for twelve
    start = threading.Barrier(20)

    def enrol(_: int) -> int | None:
        start.wait()
        try:
            return Seat.taken(database, study).participant_id
        except NotOpen:
            return None

    with ThreadPoolExecutor(20) as pool:
        enrolled = [key for key in pool.map(enrol, range(20)) if key is not None]
    assert len(enrolled) == 12
    with database.reading() as session:
        forms = session.scalars(select(Form).order_by(Form.participant_id, Form.position)).all()
        names = session.scalars(select(Participant.name)).all()
    assert sorted(form.participant_id or 0 for form in forms) == sorted(enrolled * 2)
    assert [form.position for form in forms] == [1, 2] * 12
    assert sorted(names) == sorted(f"p{number}" for number in range(1, 13))
    for first, second in zip(forms[::2], forms[1::2], strict=True):
        assert first.category == second.category
        assert second.number == first.number + 1


def test_a_token_finds_its_participant(database: Database, seat: Seat) -> None:
    token = participant(database, seat.participant_id).token
    with database.reading() as session:
        person = participants.by_token(session, token)
        assert person is not None
        assert person.id == seat.participant_id
        assert participants.by_token(session, token.swapcase()) is None
        assert participants.by_token(session, "") is None
    assert person.study.name == "small"  # loaded with them


# ------------------------------------------------------------------------------ where one stands


def test_participants_start_at_the_first_question_of_the_first_form(seat: Seat) -> None:
    standing = seat.standing()
    assert standing.current == standing.steps[0]
    assert standing.current is not None
    assert standing.current.check_id is None
    assert (standing.answered, standing.total) == (0, 4)


def test_checks_come_only_between_forms(seat: Seat) -> None:
    steps = seat.standing().steps
    assert [(step.number, step.check_id is not None) for step in steps] == [
        (1, False),
        (2, False),
        (3, True),
        (3, False),
        (4, False),
    ]
    assert not any(step.done for step in steps)


def test_places_follow_the_forms_in_order(database: Database, seat: Seat) -> None:
    with database.reading() as session:
        questions = [session.get_one(Question, key) for key in seat.question_ids]
    forms = [form.id for form in forms_of(database, seat.participant_id)]
    assert [(question.form_id, question.place) for question in questions] == [
        (form, place) for form in forms for place in (0, 1)
    ]


def test_the_position_is_derived_from_the_rows(seat: Seat) -> None:
    reached = []
    while current := seat.standing().current:
        reached.append((current.number, current.check_id is not None))
        if current.check_id is not None:
            seat.pass_check(current.check_id)
        else:
            seat.submit(current.question_id)
    assert reached == [(1, False), (2, False), (3, True), (3, False), (4, False)]
    end = seat.standing()
    assert (end.answered, end.total) == (4, 4)
    assert all(step.done for step in end.steps)


def test_a_new_process_restores_the_position(
    database: Database, database_url: str, seat: Seat
) -> None:
    seat.answer_until(4)
    before = seat.standing()
    database.close()  # every connection is gone; the next call opens others
    assert seat.standing() == before
    assert before.current is not None
    assert before.current.number == 4


def test_revising_does_not_change_the_position(seat: Seat) -> None:
    seat.answer_until(2)
    before = seat.standing()
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    assert seat.standing() == before


def test_answers_count_only_for_their_participant(
    database: Database, study: int, seat: Seat
) -> None:
    Seat.taken(database, study).answer_all()
    assert seat.standing().answered == 0


def test_the_first_serving_time_is_kept(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    for later in range(3):
        with database.writing() as session:
            assert mark_served(session, question, NOW + timedelta(hours=later)) == NOW


def test_a_question_shows_its_pair_as_drawn(database: Database, seat: Seat) -> None:
    for key in seat.question_ids:
        with database.reading() as session:
            question = load_question(session, key)
        first, second = shown_sets(question)
        drawn = (question.pair.first, question.pair.second)
        assert (first, second) == (drawn[::-1] if question.swapped else drawn)
        assert [member.rank for member in first.images] == [0, 1]
        assert all(member.image.name for member in (*first.images, *second.images))
        assert question.pair.query.triplet.reference.name


# ---------------------------------------------------------------------------------------- submit


def test_an_answer_is_kept_as_revision_1(database: Database, seat: Seat) -> None:
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


def test_an_empty_reason_is_none(database: Database, seat: Seat) -> None:
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


def test_a_repeated_submit_is_one_row(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    assert seat.submit(question, GOOD, key="a press") == 1
    assert seat.submit(question, GOOD, key="a press") == 1
    assert seat.submit(question, GOOD, revision=1, key="a press") == 1
    assert len(responses(database, question)) == 1


def test_a_repeated_submit_is_recognised_later(database: Database, study: int, seat: Seat) -> None:
    """The acknowledgement was lost on its way, and the browser asks again later."""
    question = seat.question_ids[0]
    seat.submit(question, GOOD, key="a press")
    seat.submit(question, OTHER, revision=1)
    seat.answer_all()
    set_status(database, study, "closed")
    assert seat.submit(question, GOOD, key="a press") == 1
    assert len(responses(database, question)) == 2


def test_one_submit_key_may_be_used_for_two_questions(database: Database, seat: Seat) -> None:
    for question in seat.question_ids[:2]:
        assert seat.submit(question, key="a press") == 1


@pytest.mark.parametrize("shown_revision", [0, 2, -1])
def test_a_page_that_shows_another_revision_conflicts(
    database: Database, seat: Seat, shown_revision: int
) -> None:
    question = seat.question_ids[0]
    seat.submit(question)
    with pytest.raises(Conflict, match="answered elsewhere since the page was loaded"):
        seat.submit(question, OTHER, revision=shown_revision)
    assert [values(row) for row in responses(database, question)] == [GOOD]


def test_a_page_that_shows_a_nonexistent_revision_conflicts(database: Database, seat: Seat) -> None:
    with pytest.raises(Conflict):
        seat.submit(seat.question_ids[0], revision=1)
    assert responses(database, seat.question_ids[0]) == []


def test_revising_keeps_the_history_and_the_latest_counts(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    answers = [GOOD, OTHER, replace(GOOD, score_1=5)]
    for number, answer in enumerate(answers):
        assert seat.submit(question, answer, revision=number) == number + 1
    rows = responses(database, question)
    assert [(row.revision, values(row)) for row in rows] == list(enumerate(answers, start=1))
    with database.reading() as session:
        latest = latest_response(session, question)
        assert latest_response(session, seat.question_ids[1]) is None
    assert latest is not None
    assert latest.revision == 3


def test_a_skip_holds_no_scores_and_can_be_revised(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    seat.submit(question, Skip(served_at=NOW, submitted_at=NOW))
    (row,) = responses(database, question)
    assert (row.score_1, row.score_2, row.preferred) == (None, None, None)
    assert (row.skipped, row.irrelevant) == ("missing-image", False)
    assert seat.standing().answered == 1
    assert seat.submit(question, GOOD, revision=1) == 2


def test_a_tie_is_refused_unless_the_study_allows_it(database: Database, seat: Seat) -> None:
    tie = replace(GOOD, preferred=0)
    with pytest.raises(Refused, match="does not allow ties"):
        seat.submit(seat.question_ids[0], tie)
    assert responses(database, seat.question_ids[0]) == []


def test_a_tie_is_kept_where_the_study_allows_it(database: Database) -> None:
    seat = Seat.taken(database, small_study(database, preference_ties=True))
    tie = replace(GOOD, preferred=0)
    seat.submit(seat.question_ids[0], tie)
    assert values(responses(database, seat.question_ids[0])[0]) == tie


@pytest.mark.parametrize("status", ["draft", "paused", "closed"])
def test_a_study_that_is_not_open_keeps_nothing(
    database: Database, study: int, seat: Seat, status: str
) -> None:
    seat.submit(seat.question_ids[0])
    set_status(database, study, status)
    for question, revision in zip(seat.question_ids[:2], (1, 0), strict=True):
        with pytest.raises(NotOpen, match=f"this study is {status}"):
            seat.submit(question, OTHER, revision=revision)
    assert len(responses(database, seat.question_ids[0])) == 1
    assert responses(database, seat.question_ids[1]) == []


# ------------------------------------------------------------------------------ whose question


def test_anothers_question_is_forbidden(database: Database, study: int, seat: Seat) -> None:
    other_seat = Seat.taken(database, study)
    for question in other_seat.question_ids:
        with pytest.raises(Forbidden, match="you cannot answer this question now"):
            seat.submit(question)
        assert responses(database, question) == []


def test_a_question_that_nobody_has_is_forbidden(database: Database, seat: Seat) -> None:
    with database.reading() as session:
        free = session.scalars(
            select(Question.id).join(Question.form).where(Form.participant_id.is_(None))
        ).first()
    assert free is not None
    for question in (free, 10**6, -1):
        with pytest.raises(Forbidden):
            seat.submit(question)


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


# ---------------------------------------------------------------------------------------- checks


def check_of(seat: Seat) -> int:
    (check,) = {step.check_id for step in seat.standing().steps} - {None}
    assert check is not None
    return check


def tries(database: Database, check_id: int) -> list[tuple[str, bool]]:
    with database.reading() as session:
        kept = select(CheckAnswer).where(CheckAnswer.check_id == check_id).order_by(CheckAnswer.id)
        return [(row.given, row.passed) for row in session.scalars(kept)]


def answer_up_to_the_check(seat: Seat) -> int:
    for question in seat.question_ids[:2]:
        seat.submit(question)
    return check_of(seat)


def test_every_attempt_at_a_check_is_kept(database: Database, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    for attempt in ("", "five", "-1", "1" * 400):
        assert not seat.try_check(check, attempt)
        current = seat.standing().current
        assert current is not None
        assert current.check_id == check
    seat.pass_check(check)
    kept = tries(database, check)
    assert [passed for _, passed in kept] == [False] * 4 + [True]
    assert len(kept[3][0]) <= 400
    current = seat.standing().current
    assert current is not None
    assert current.check_id is None


def test_blanks_around_the_correct_answer_are_accepted(database: Database, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    with database.reading() as session:
        left, _, right = session.get_one(Check, check).prompt.split()
    assert seat.try_check(check, f"  {int(left) + int(right)}\n")


@pytest.mark.parametrize("attempt", ["1\0", "\ud83d"], ids=["NUL", "lone surrogate"])
def test_an_attempt_that_cannot_be_stored_is_refused(
    database: Database, seat: Seat, attempt: str
) -> None:
    check = answer_up_to_the_check(seat)
    with pytest.raises(Refused, match="characters that cannot be stored"):
        seat.try_check(check, attempt)
    assert tries(database, check) == []


def test_a_check_that_is_not_asked_is_forbidden(database: Database, study: int, seat: Seat) -> None:
    other_seat = Seat.taken(database, study)
    for check in (check_of(seat), check_of(other_seat), 10**6):
        with pytest.raises(Forbidden, match="you cannot answer this check now"):
            seat.try_check(check, "12")
    answer_up_to_the_check(seat)
    with pytest.raises(Forbidden):
        seat.try_check(check_of(other_seat), "12")
    seat.pass_check(check_of(seat))
    with pytest.raises(Forbidden):
        seat.try_check(check_of(seat), "12")
    assert tries(database, check_of(other_seat)) == []


def test_a_closed_study_asks_no_check(database: Database, study: int, seat: Seat) -> None:
    check = answer_up_to_the_check(seat)
    set_status(database, study, "closed")
    with pytest.raises(NotOpen):
        seat.try_check(check, "12")
    assert tries(database, check) == []


# ------------------------------------------------------------------------------------------ counts


def test_progress_counts_the_stored_answers(database: Database, study: int, seat: Seat) -> None:
    seat.answer_until(3)
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    with database.reading() as session:
        (listed_study,) = list_studies(session)
        assert listed_study.id == study
        assert progress_of(session, listed_study).facts() == {
            "study": "small",
            "title": "Which set fits?",
            "status": "open",
            "origin": "collected",
            "forms": 4,
            "forms_taken": 2,
            "participants": 1,
            "questions": 8,
            "answered": 2,
        }


# ------------------------------------------------------------------------------------- all at once


def at_once(seat: Seat, calls: Sequence[dict[str, Any]]) -> list[int | type[Refused]]:
    """Submit in as many threads; each one's revision, or how it was refused."""
    start = threading.Barrier(len(calls))

    def wait_and_submit(call: dict[str, Any]) -> int | type[Refused]:
        start.wait()
        try:
            return seat.submit(**call)
        except Refused as refusal:
            return type(refusal)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and_submit, calls))


def test_a_double_click_is_one_row(database: Database, seat: Seat) -> None:
    for question in seat.question_ids[:2]:
        press = {"question_id": question, "key": "a press"}
        assert at_once(seat, [press] * 8) == [1] * 8
        assert len(responses(database, question)) == 1


def test_each_revision_is_accepted_from_one_tab_only(database: Database, seat: Seat) -> None:
    question = seat.question_ids[0]
    for revision in range(3):
        tabs = [
            {
                "question_id": question,
                "answer": replace(GOOD, reason=f"{tab}"),
                "revision": revision,
            }
            for tab in range(8)
        ]
        outcomes = at_once(seat, tabs)
        assert sorted(outcomes, key=str) == [revision + 1] + [Conflict] * 7
        row = responses(database, question)[-1]
        assert row.reason == str(outcomes.index(revision + 1))
    assert [row.revision for row in responses(database, question)] == [1, 2, 3]


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
from sqlalchemy import select
from hsfiq.collect.responses import submit
from hsfiq.db.engine import open_database
from hsfiq.db.tables import Participant
from tests.studies import GOOD
url, participant_id, question_id, when = sys.argv[1:]
database = open_database(url)
with database.writing() as session:
    participant = session.get_one(Participant, int(participant_id))
    submit(
        session, participant, int(question_id), GOOD, expected_revision=0, submit_key="a press"
    )
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


# --------------------------------------------------------------------------------------- two tabs


@dataclass
class Tab:
    """What one browser tab shows: a question, its revision, and what its last press was."""

    seat: Seat
    name: str
    question: int = 0
    revision: int = 0
    presses: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    def load(self, place: int) -> None:
        """Show the question at this place, or the current one where it is not reached."""
        reached = self.seat.standing()
        number = min(place, reached.answered, reached.total - 1)
        self.question = self.seat.question_ids[number]
        rows = responses(self.seat.database, self.question)
        self.revision = rows[-1].revision if rows else 0

    def press(self, answer: Answer) -> int:
        self.presses += 1
        self.last = {
            "question_id": self.question,
            "answer": answer,
            "revision": self.revision,
            "key": f"{self.name}-{self.presses}",
        }
        self.revision = self.seat.submit(**self.last)
        return self.revision

    def press_again(self) -> int:
        """The browser sends its last press once more, as it does when it heard no answer."""
        return self.seat.submit(**self.last)


answers = st.builds(Answer, st.integers(1, 5), st.integers(1, 5), st.integers(1, 2), st.booleans())
moves = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.tuples(st.just("load"), st.integers(0, 3)),
            st.tuples(st.just("press"), answers),
            st.tuples(st.just("press again"), st.none()),
        ),
    ),
    min_size=4,
    max_size=16,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=moves)
def test_two_tabs_lose_nothing_and_double_nothing(
    database: Database, queries: list[int], moves: list[tuple[int, tuple[str, Any]]]
) -> None:
    # One form: no check stands in the way of the two tabs.
    with database.reading() as session:
        number = len(session.scalars(select(Study.id)).all())
    design = replace(SMALL, questions_per_form=4, forms_per_participant=1)
    seat = Seat.taken(database, draw(database, queries, design, name=f"study-{number}"))
    tabs = [Tab(seat, "left"), Tab(seat, "right")]
    for tab in tabs:
        tab.load(0)
    acknowledged: dict[tuple[int, int], Answer] = {}
    stored_by: dict[str, int] = {}
    for tab_number, (move, value) in moves:
        tab = tabs[tab_number]
        if move == "load":
            tab.load(value)
        elif move == "press again" and tab.last.get("key") in stored_by:
            assert tab.press_again() == stored_by[tab.last["key"]]
        elif move == "press":
            newest = sum(question == tab.question for question, _ in acknowledged)
            if tab.revision != newest:  # the other tab was quicker
                with pytest.raises(Conflict):
                    tab.press(value)
            else:
                assert tab.press(value) == newest + 1
                acknowledged[tab.question, newest + 1] = value
                stored_by[tab.last["key"]] = newest + 1
        with database.reading() as session:
            statement = select(Response).where(Response.question_id.in_(seat.question_ids))
            rows = session.scalars(statement).all()
        assert {(row.question_id, row.revision): values(row) for row in rows} == acknowledged
        assert len(rows) == len(acknowledged)


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 4})
