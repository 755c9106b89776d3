"""How participants come and go, and that each planned answer is asked of one person at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from hsfiq.answers import Answer, Times
from hsfiq.collect import leases, participants
from hsfiq.collect.leases import DEPARTED_STATUSES, end_lease
from hsfiq.collect.participants import STATUSES
from hsfiq.collect.progress import progress_of
from hsfiq.collect.responses import Skip
from hsfiq.collect.steps import load_question, mark_served
from hsfiq.db.engine import Database
from hsfiq.db.tables import Check, CheckAnswer, Form, Participant, Question, Response, Study
from hsfiq.errors import Forbidden, NotOpen, Refused
from hsfiq.releases import Filters
from hsfiq.study.config import Checks, Recruitment
from tests.hsfiq.samples import release_of, rows
from tests.studies import GOOD, NOW, OTHER, SMALL, Seat, draw, make_queries, responses, small_study

T = TypeVar("T")

LATER = NOW + timedelta(hours=3)
"""After every lease that ran from NOW."""


def at_once(number: int, call: Callable[[int], T]) -> list[T]:
    """What the call gives in so many threads that start together."""
    start = threading.Barrier(number)

    def wait_and_call(index: int) -> T:
        start.wait()
        return call(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(wait_and_call, range(number)))


def enrolled(database: Database, study: int, **options: object) -> int | None:
    """The participant's key, None where the study takes nobody."""
    try:
        with database.writing() as session:
            person = participants.enrol(session, study, **({"now": NOW} | options))  # type: ignore[arg-type]
            participants.consent(person, now=NOW)
            return person.id
    except NotOpen:
        return None


def live_questions(database: Database) -> Counter[int]:
    """How many questions that are no checks ask for an answer about each pair."""
    with database.reading() as session:
        is_check = select(Check.question_id).where(Check.question_id.is_not(None))
        statement = select(Question.pair_id).where(
            Question.reassigned.is_(False), Question.id.not_in(is_check)
        )
        return Counter(session.scalars(statement))


def counted_answers(database: Database) -> Counter[int]:
    """How many answers count about each pair."""
    with database.reading() as session:
        statement = (
            select(Question.pair_id)
            .join(Form, Question.form_id == Form.id)
            .join(Participant, Form.participant_id == Participant.id)
            .join(Response, Response.question_id == Question.id)
            .where(
                Response.revision == 1,
                Participant.status != "excluded",
                Question.reassigned.is_(False),
            )
        )
        return Counter(session.scalars(statement))


def answers_of_active_participants(database: Database) -> Counter[int]:
    """The same, counting what was answered before it was handed on, if that ever happened."""
    with database.reading() as session:
        statement = (
            select(Question.pair_id)
            .join(Form, Question.form_id == Form.id)
            .join(Participant, Form.participant_id == Participant.id)
            .join(Response, Response.question_id == Question.id)
            .where(Response.revision == 1, Participant.status != "excluded")
        )
        return Counter(session.scalars(statement))


# ------------------------------------------------------------------------------------- coming


def test_twenty_at_once_never_exceed_the_overlap(database: Database) -> None:
    design = replace(SMALL, annotators_per_query=2, questions_per_form=3)
    study = draw(database, make_queries(database, {"dress": 24, "shirt": 24}), design)
    keys = [key for key in at_once(20, lambda _: enrolled(database, study)) if key]
    assert len(keys) == len(set(keys)) == 16
    with database.reading() as session:
        assignments = session.execute(
            select(Form.participant_id, Question.pair_id).join(
                Question, Question.form_id == Form.id
            )
        ).all()
    assert len(set(assignments)) == len(assignments) == 96  # nobody meets a pair twice
    assert set(Counter(pair for _, pair in assignments).values()) == {2}


def test_no_more_participants_enrol_than_the_owner_wants(database: Database) -> None:
    queries = make_queries(database, {"shirt": 80})
    study = draw(database, queries, recruitment=Recruitment(participants=5))
    keys = at_once(12, lambda _: enrolled(database, study))
    assert len([key for key in keys if key]) == 5
    with pytest.raises(NotOpen, match="all 5 places are taken"):
        Seat.taken(database, study)
    with database.reading() as session:
        assert session.scalar(select(func.count(Participant.id))) == 5


@pytest.mark.parametrize("status", DEPARTED_STATUSES)
def test_a_participant_who_left_frees_their_place(database: Database, status: str) -> None:
    queries = make_queries(database, {"shirt": 16})
    study = draw(database, queries, recruitment=Recruitment(participants=1))
    seat = Seat.taken(database, study)
    assert enrolled(database, study) is None
    seat.set_status(status)
    assert enrolled(database, study) is not None


def test_only_unfinished_participants_free_their_place(
    database: Database,
) -> None:
    queries = make_queries(database, {"shirt": 16})
    study = draw(database, queries, recruitment=Recruitment(participants=2))
    Seat.taken(database, study).answer_all()
    Seat.taken(database, study).answer_until(2)
    assert enrolled(database, study, now=NOW + timedelta(minutes=119)) is None
    assert enrolled(database, study, now=LATER) is not None
    assert enrolled(database, study, now=LATER) is None


def test_a_returning_platform_id_is_recognised(database: Database) -> None:
    study = small_study(database)
    identity = {"source": "prolific", "external_id": "5f1e"}
    first = enrolled(database, study, **identity)
    assert enrolled(database, study, **identity) == first
    other_key = enrolled(database, study, source="prolific", external_id="5f1f")
    assert other_key != first
    assert enrolled(database, study) is None  # both batches are taken
    with database.writing() as session:
        session.get_one(Study, study).status = "closed"
    assert enrolled(database, study, **identity) == first  # late-comers see their code
    with database.reading() as session:
        person = session.get_one(Participant, first)
    assert (person.source, person.external_id, person.name) == ("prolific", "5f1e", "p1")


def test_twenty_concurrent_enrolments_of_one_platform_id_are_one_participant(
    database: Database,
) -> None:
    study = draw(database, make_queries(database, {"shirt": 80}))
    keys = at_once(20, lambda _: enrolled(database, study, source="prolific", external_id="5f1e"))
    assert len(set(keys)) == 1
    with database.reading() as session:
        assert session.scalar(select(func.count(Participant.id))) == 1
        taken_forms = select(func.count(Form.id)).where(Form.participant_id.is_not(None))
        assert session.scalar(taken_forms) == 2


def test_the_same_platform_id_may_be_in_two_studies(database: Database) -> None:
    queries = make_queries(database)
    keys = [
        enrolled(database, draw(database, queries, name=name), external_id="5f1e")
        for name in ("one", "another")
    ]
    assert len(set(keys)) == 2


def test_invited_participants_get_their_forms_at_first_visit(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 16}))
    with database.writing() as session:
        invited = participants.invite(session, study, 3, now=NOW)
        names = [person.name for person in invited]
        keys = [person.id for person in invited]
    assert names == ["p1", "p2", "p3"]
    with database.reading() as session:
        assert session.scalar(select(func.count()).where(Form.participant_id.is_not(None))) == 0

    def arrive(_: int) -> None:
        with database.writing() as session:
            participants.enrol_invited(session, session.get_one(Participant, keys[0]), now=NOW)

    at_once(8, arrive)
    with database.reading() as session:
        assert session.scalar(select(func.count()).where(Form.participant_id == keys[0])) == 2
        person = session.get_one(Participant, keys[0])
    assert (person.source, person.enrolled_at, person.consented_at) == ("invitation", NOW, None)
    with database.writing() as session:
        assert [p.name for p in participants.invite(session, study, 1, now=NOW)] == ["p4"]


def test_invited_participants_may_arrive_concurrently(database: Database) -> None:
    study = draw(database, make_queries(database, {"shirt": 40}))  # room for ten
    with database.writing() as session:
        keys = [person.id for person in participants.invite(session, study, 20, now=NOW)]

    def arrive(index: int) -> bool:
        try:
            with database.writing() as session:
                person = session.get_one(Participant, keys[index])
                participants.enrol_invited(session, person, now=NOW)
        except NotOpen:
            return False
        return True

    assert sum(at_once(20, arrive)) == 10
    with database.reading() as session:
        forms_held = Counter(session.scalars(select(Form.participant_id)))
    assert set(forms_held.values()) == {2}
    assert len(forms_held) == 10


def test_the_first_consent_and_practice_are_kept(database: Database) -> None:
    seat = Seat.taken(database, small_study(database))
    with database.writing() as session:
        person = session.get_one(Participant, seat.participant_id)
        participants.consent(person, now=LATER)
        participants.finish_practice(person, now=NOW)
        participants.finish_practice(person, now=LATER)
    person = seat.participant()
    assert (person.consented_at, person.practised_at) == (NOW, NOW)


def test_nobody_answers_before_they_consent(database: Database) -> None:
    study = small_study(database)
    with database.writing() as session:
        seat = Seat(database, participants.enrol(session, study, now=NOW).id)
    with pytest.raises(Forbidden, match="the consent page comes before the first question"):
        seat.submit(seat.question_ids[0])


# ------------------------------------------------------------------------------------- leases


def one_form_each(database: Database, **options: object) -> int:
    """A study with questions for one participant, so that the next gets what is left."""
    queries = make_queries(database, {"shirt": 4})
    return draw(database, queries, **options)  # type: ignore[arg-type]


def serve(database: Database, question: int, now: object) -> None:
    with database.writing() as session:
        mark_served(session, question, now)  # type: ignore[arg-type]


def test_unanswered_questions_are_reassigned_and_answers_stay(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    first.answer_until(3)
    question_ids = first.question_ids
    assert enrolled(database, study, now=NOW + timedelta(minutes=120)) is None
    second = Seat.taken(database, study, now=LATER)
    with database.reading() as session:
        unanswered = [session.get_one(Question, key) for key in question_ids[2:]]
        new_questions = [session.get_one(Question, key) for key in second.question_ids]
        assert second.participant().category == "shirt"
    assert [question.reassigned for question in unanswered] == [True, True]
    for old, new in zip(unanswered, new_questions, strict=True):
        assert (old.pair_id, old.swapped, old.order_1) == (new.pair_id, new.swapped, new.order_1)
    assert first.question_ids == question_ids[:2]
    assert first.standing().current is None
    second.answer_all()
    assert set(counted_answers(database).values()) == {1}
    assert len(counted_answers(database)) == 4


def test_returning_too_late_gets_an_explanation(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    question_ids = first.question_ids
    first.submit(question_ids[0], key="a press")
    Seat.taken(database, study, now=LATER)
    for question in question_ids[1:]:
        with pytest.raises(Forbidden, match="this question was given to somebody else"):
            first.submit(question)
        assert responses(database, question) == []
    assert first.submit(question_ids[0], key="a press") == 1  # what was answered can be sent again,
    assert first.submit(question_ids[0], OTHER, revision=1) == 2  # and revised
    assert first.standing().answered == first.standing().total == 1


def test_returning_in_time_continues(database: Database) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    serve(database, first.question_ids[0], LATER)
    assert enrolled(database, study, now=LATER + timedelta(minutes=119)) is None
    assert enrolled(database, study, now=LATER + timedelta(minutes=121)) is not None


def test_an_answer_and_a_sum_renew_the_lease(database: Database) -> None:
    seat = Seat.taken(database, one_form_each(database))
    assert seat.participant().seen_at == NOW
    for question in seat.question_ids[:2]:
        seat.submit(question, replace(GOOD, times=Times(submitted_at=LATER)))
        assert seat.participant().seen_at == LATER
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    seat.pass_check(check.check_id)  # at NOW: an earlier sign takes nothing back
    assert seat.participant().seen_at == LATER
    seat.submit(seat.question_ids[2], Skip(submitted_at=LATER + timedelta(hours=1)))
    assert seat.participant().seen_at == LATER + timedelta(hours=1)


def test_the_lease_length_comes_from_the_study(database: Database) -> None:
    study = one_form_each(database, design=replace(SMALL, lease_minutes=5))
    Seat.taken(database, study)
    assert enrolled(database, study, now=NOW + timedelta(minutes=5)) is None
    assert enrolled(database, study, now=NOW + timedelta(minutes=5, seconds=1)) is not None


def test_questions_left_twice_are_assigned_again(database: Database) -> None:
    study = one_form_each(database)
    for number in range(4):
        seat = Seat.taken(database, study, now=NOW + number * timedelta(hours=3))
        seat.submit(seat.question_ids[0])
    assert enrolled(database, study, now=NOW + timedelta(days=1)) is None
    assert counted_answers(database) == live_questions(database)
    assert sorted(counted_answers(database).values()) == [1] * 4


def test_free_forms_are_assigned_before_abandoned_ones(database: Database) -> None:
    study = small_study(database)
    abandoned = Seat.taken(database, study)
    with database.reading() as session:
        free = session.scalars(select(Form.id).where(Form.participant_id.is_(None))).all()
    fresh = Seat.taken(database, study, now=LATER)
    with database.reading() as session:
        own_forms = select(Form.id).where(Form.participant_id == fresh.participant_id)
        assert set(session.scalars(own_forms)) == set(free)
    assert abandoned.standing().total == 4


def test_reassigned_forms_are_not_too_large_and_repeat_no_triplet(
    database: Database,
) -> None:
    design = replace(SMALL, annotators_per_query=3)
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 4}), design)
    for _ in range(6):
        Seat.taken(database, study)
    before = live_questions(database)
    for _ in range(6):
        seat = Seat.taken(database, study, now=LATER)
        with database.reading() as session:
            shown_queries = [load_question(session, key).pair.query for key in seat.question_ids]
        assert len({query.triplet_id for query in shown_queries}) == len(shown_queries) == 4
        assert len({query.triplet.category for query in shown_queries}) == 1
    assert enrolled(database, study, now=LATER) is None
    assert live_questions(database) == before
    assert set(before.values()) == {3}


def test_checks_are_not_reassigned(database: Database) -> None:
    design = replace(SMALL, questions_per_form=4)
    study = draw(
        database, make_queries(database, {"shirt": 16}), design, checks=Checks(gold=1, repeated=1)
    )
    seats = [Seat.taken(database, study) for _ in range(2)]
    seats[0].submit(seats[0].question_ids[0])
    assert {seat.standing().total for seat in seats} == {12}
    counts = [len(Seat.taken(database, study, now=LATER).question_ids) for _ in range(2)]
    assert sorted(counts) in ([7, 8], [8, 8])  # the one answer may have been to a check
    with database.reading() as session:
        checks = session.scalars(select(Check).where(Check.kind != "arithmetic")).all()
        assert len(checks) == 8
        assert not any(
            session.get_one(Question, check.question_id).reassigned  # type: ignore[arg-type]
            for check in checks
        )


def test_the_sums_of_reassigned_forms_are_correct(database: Database) -> None:
    study = one_form_each(database)
    Seat.taken(database, study)
    second = Seat.taken(database, study, now=LATER)
    second.answer_all()
    assert second.standing().current is None
    assert len(second.standing().steps) == 5


# ------------------------------------------------------------------------------------- going


@pytest.mark.parametrize("status", ["returned", "screened-out"])
def test_a_withdrawn_participant_keeps_their_answers(database: Database, status: str) -> None:
    study = one_form_each(database)
    first = Seat.taken(database, study)
    first.answer_until(3)
    question_ids = first.question_ids
    first.set_status(status)
    with pytest.raises(NotOpen, match=f"your part in this study is {status}"):
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
    assert [(step.rule, step.dropped, step.left) for step in release.questions.funnel] == [
        ("handed-on", 4, 4), ("unanswered", 2, 2), ("skipped", 0, 2),
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


def test_paused_participants_answer_nothing_until_resumed(database: Database) -> None:
    study = one_form_each(database)
    seat = Seat.taken(database, study)
    seat.set_status("paused")
    with pytest.raises(NotOpen, match="your part in this study is paused"):
        seat.submit(seat.question_ids[0])
    assert enrolled(database, study) is None  # their questions stay theirs for the lease
    seat.set_status("active")
    for question in seat.question_ids[:2]:
        seat.submit(question)
    check = seat.standing().current
    assert check is not None
    assert check.check_id is not None
    seat.set_status("paused")
    with pytest.raises(NotOpen, match="your part in this study is paused"):
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


def test_an_owner_may_reassign_before_the_lease_ends(database: Database) -> None:
    study = one_form_each(database)
    seat = Seat.taken(database, study)
    with database.writing() as session:
        end_lease(session.get_one(Participant, seat.participant_id))
    seat.submit(seat.question_ids[0])  # nobody has come yet
    assert Seat.taken(database, study).standing().total == 3
    assert seat.standing().total == 1


def test_a_person_is_found_by_name(database: Database) -> None:
    study = one_form_each(database)
    key = Seat.taken(database, study).participant_id
    with database.reading() as session:
        study_row = session.get_one(Study, study)
        assert participants.by_name(session, study_row, "p1").id == key
        with pytest.raises(Refused, match="study small has no participant 'p2'"):
            participants.by_name(session, study_row, "p2")


# ------------------------------------------------------------------------------------- forgetting


def forget(database: Database, participant_id: int) -> int:
    with database.writing() as session:
        return participants.forget(session, session.get_one(Participant, participant_id))


def test_nothing_remains_of_a_forgotten_participant(database: Database) -> None:
    study = one_form_each(database)
    key = enrolled(database, study, source="prolific", external_id="5f1e")
    assert key is not None
    seat = Seat(database, key)
    token = seat.participant().token
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
    assert set(kept) == {"id", "study_id", "name", "token", "category", "status", "source"}
    assert (kept["name"], kept["status"]) == ("p1", "returned")
    assert kept["token"] != token
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


# ------------------------------------------------------------------------------- all at once


def test_an_answer_races_an_enrolment(database: Database) -> None:
    """Whoever is first has the question; the other one hears of it, or gets something else."""
    queries = make_queries(database, {"shirt": 4})
    rng = Random(1)
    for number in range(16):
        study = draw(database, queries, name=f"study-{number}")
        first = Seat.taken(database, study)
        question = first.question_ids[0]
        delay = rng.uniform(0, 0.01)

        def race(index: int, *, seat: Seat = first, key: int = study, question_id: int = question,
                 wait: float = delay) -> object:  # fmt: skip
            threading.Event().wait(wait if index else 0.005)
            if index:
                return enrolled(database, key, now=LATER)
            try:
                return seat.submit(question_id)
            except Forbidden:
                return None

        stored, second = at_once(2, race)
        assert isinstance(second, int)
        asked_again = Seat(database, second).standing().total
        assert asked_again == (3 if stored else 4)
        assert len(responses(database, question)) == (1 if stored else 0)
        Seat(database, second).answer_all()
    assert set(answers_of_active_participants(database).values()) == {1}
    assert answers_of_active_participants(database) == live_questions(database)


@pytest.mark.parametrize(
    "kind", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)
def test_an_answer_given_during_assignment_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has one writer at a time; here an answer comes between the look and the lock."""
    study = one_form_each(database)
    first = Seat.taken(database, study)
    question_ids, looks, look = first.question_ids, [], leases.abandoned_questions

    def look_and_be_late(*arguments: Any) -> Any:
        abandoned = look(*arguments)
        if not looks:
            first.submit(question_ids[0])
        looks.append(len(abandoned))
        return abandoned

    monkeypatch.setattr(leases, "abandoned_questions", look_and_be_late)
    second = Seat.taken(database, study, now=LATER)
    assert looks == [4, 3]
    assert second.standing().total == 3
    assert set(answers_of_active_participants(database).values()) == {1}


def test_many_participants_leave_return_and_enrol_concurrently(database: Database) -> None:
    """Each slot of the design has its answer in the end, and none has two."""
    design = replace(SMALL, annotators_per_query=2)
    study = draw(database, make_queries(database, {"dress": 12, "shirt": 12}), design)
    planned = live_questions(database)
    seats = [Seat.taken(database, study) for _ in range(12)]

    def act(index: int) -> None:
        rng = Random(index)
        if index < 12:
            answer_while_theirs(seats[index])
        else:
            for _ in range(2):
                threading.Event().wait(rng.uniform(0, 0.1))
                key = enrolled(database, study, now=LATER)
                if key is not None:
                    answer_while_theirs(Seat(database, key))

    at_once(20, act)
    hours = 6
    while key := enrolled(database, study, now=NOW + timedelta(hours=hours)):
        Seat(database, key).answer_all()
        hours += 3
    assert live_questions(database) == planned
    assert answers_of_active_participants(database) == planned


def answer_while_theirs(seat: Seat) -> None:
    """Answer until the end, or until somebody else has got the questions."""
    try:
        seat.answer_all()
    except Refused:
        return


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["come", "come", "answer", "answer", "leave", "exclude", "return", "resume", "forget"]
        ),
        st.integers(0, 9),
    ),
    min_size=10,
    max_size=40,
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=moves, overlap=st.integers(1, 3))
def test_any_sequence_of_actions_keeps_one_live_question_per_slot(
    database: Database, queries: list[int], moves: list[tuple[str, int]], overlap: int
) -> None:
    with database.reading() as session:
        number = len(session.scalars(select(Study.id)).all())
    before = live_questions(database)
    design = replace(SMALL, annotators_per_query=overlap)
    study = draw(database, queries, design, name=f"study-{number}")
    planned = live_questions(database) - before
    assert set(planned.values()) == {overlap}
    seats: list[Seat] = []
    now = NOW
    for move, index in moves:
        if move == "come":
            key = enrolled(database, study, now=now)
            seats += [Seat(database, key)] if key else []
        elif move == "leave":
            now += timedelta(hours=3)
        elif seats:
            seat = seats[index % len(seats)]
            if move == "answer":
                answer_one(seat)
            elif move == "forget":
                forget(database, seat.participant_id)
            else:
                status = {"exclude": "excluded", "return": "returned"}.get(move, "active")
                seat.set_status(status)
        assert live_questions(database) - before == planned
        assert not counted_answers(database) - live_questions(database)
    with database.reading() as session:
        progress = progress_of(session, session.get_one(Study, study))
    assert progress.questions == sum(planned.values())
    assert progress.answered == sum(
        count for pair, count in counted_answers(database).items() if pair in planned
    )


def answer_one(seat: Seat) -> None:
    current = seat.standing().current
    if current is None:
        return
    try:
        if current.check_id is not None:
            seat.pass_check(current.check_id)
        else:
            seat.submit(current.question_id)
    except Refused:
        return


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 8})


# ------------------------------------------------------------------------------------- privacy


def test_nothing_is_stored_of_a_person() -> None:
    """No address, no browser, no name: a new column has to be thought about here."""
    columns = {table: set(table.__table__.columns.keys()) for table in (Participant, Response)}
    assert columns[Participant] == {
        "id", "study_id", "name", "token", "category", "status", "source", "external_id",
        "created_at", "consented_at", "practised_at", "enrolled_at", "seen_at",
    }  # fmt: skip
    assert columns[Response] == {
        "id", "question_id", "revision", "submit_key", "score_1", "score_2", "preferred",
        "irrelevant", "reason", "skipped", "served_at", "first_interaction_at", "submitted_at",
        "active_seconds",
    }  # fmt: skip
    assert set(CheckAnswer.__table__.columns.keys()) == {
        "id", "check_id", "given", "passed", "answered_at",
    }  # fmt: skip


def test_a_release_contains_neither_token_nor_platform_id(database: Database) -> None:
    key = enrolled(database, one_form_each(database), source="prolific", external_id="5f1e-id")
    assert key is not None
    Seat(database, key).submit(Seat(database, key).question_ids[0], Answer(4, 2, 1))
    token = Seat(database, key).participant().token
    for kind in ("hs", "hp"):
        for data in release_of(database, kind, Filters(invalid=True)).files.values():  # type: ignore[arg-type]
            assert token.encode() not in data
            assert b"5f1e-id" not in data
