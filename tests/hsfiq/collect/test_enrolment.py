"""Enrolment: who gets forms, which forms, and how many participants a study takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hsfiq.collect import participants
from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Study
from hsfiq.db.types import new_token
from hsfiq.errors import Forbidden, NotOpen, Refused
from hsfiq.study.recruiting import Recruitment
from tests.hsfiq.collect.study_participants import LATER, at_once, enrolled, forms_of, one_form_each
from tests.studies import NOW, SMALL, Seat, draw, make_queries, set_status, small_study


def test_enrolment_assigns_complete_forms_of_one_category(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 8}))
    form_ids = []
    for _ in range(3):
        seat = Seat.taken(database, study)
        forms = forms_of(database, seat.participant_id)
        assert [(form.position, form.name) for form in forms] == [(1, "form_1"), (2, "form_2")]
        assert {form.category for form in forms} == {seat.participant().category}
        form_ids += [form.id for form in forms]
    assert len(form_ids) == len(set(form_ids)) == 6


def test_the_category_with_most_forms_left_comes_first(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 4, "shirt": 12, "toptee": 8}))
    seats = [Seat.taken(database, study) for _ in range(6)]
    categories = [seat.participant().category for seat in seats]
    assert categories == ["shirt", "shirt", "toptee", "dress", "shirt", "toptee"]


def test_a_full_study_refuses_enrolment(database: Database, study: int) -> None:
    seats = [Seat.taken(database, study) for _ in range(2)]
    with pytest.raises(NotOpen, match="study small: all forms are assigned"):
        Seat.taken(database, study)
    with database.reading() as session:
        assert len(session.scalars(select(Participant)).all()) == len(seats)


@pytest.mark.parametrize("status", ["draft", "paused", "closed"])
def test_only_an_open_study_accepts_enrolment(database: Database, study: int, status: str) -> None:
    set_status(database, study, status)
    with pytest.raises(NotOpen, match=f"this study is {status}"):
        Seat.taken(database, study)


def test_pseudonyms_are_numbered_and_tokens_reveal_nothing(database: Database, study: int) -> None:
    first, second = (Seat.taken(database, study).participant() for _ in range(2))
    assert (first.name, second.name) == ("p1", "p2")
    assert first.created_at == NOW
    assert first.token_hash != second.token_hash
    assert len(new_token()) >= 32


def test_each_study_counts_its_own_participants(database: Database) -> None:
    queries = make_queries(database)
    for name in ("one", "another"):
        seat = Seat.taken(database, draw(database, queries, name=name))
        assert seat.participant().name == "p1"


def test_twenty_concurrent_participants_share_no_form(database: Database) -> None:
    study = draw(database, make_queries(database, {"dress": 24, "shirt": 24}))  # room for twelve
    keys = [key for key in at_once(20, lambda _: enrolled(database, study)) if key is not None]
    assert len(keys) == 12
    with database.reading() as session:
        forms = session.scalars(select(Form).order_by(Form.participant_id, Form.position)).all()
        names = session.scalars(select(Participant.name)).all()
    assert sorted(form.participant_id or 0 for form in forms) == sorted(keys * 2)
    assert [form.position for form in forms] == [1, 2] * 12
    assert sorted(names) == sorted(f"p{number}" for number in range(1, 13))
    for first, second in zip(forms[::2], forms[1::2], strict=True):
        assert first.category == second.category
        assert second.number == first.number + 1


def test_twenty_concurrent_enrolments_never_exceed_the_overlap(database: Database) -> None:
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


def test_enrolment_stops_at_the_requested_number(database: Database) -> None:
    queries = make_queries(database, {"shirt": 80})
    study = draw(database, queries, recruitment=Recruitment(participants=5))
    keys = at_once(12, lambda _: enrolled(database, study))
    assert len([key for key in keys if key]) == 5
    with pytest.raises(NotOpen, match="all 5 places are taken"):
        Seat.taken(database, study)
    with database.reading() as session:
        assert session.scalar(select(func.count(Participant.id))) == 5


@pytest.mark.parametrize("status", DEPARTED_STATUSES)
def test_a_departed_participant_frees_their_place(database: Database, status: str) -> None:
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


def test_a_returning_platform_id_is_recognized(database: Database) -> None:
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


def test_the_first_consent_is_kept(database: Database) -> None:
    seat = Seat.taken(database, small_study(database))
    with database.writing() as session:
        person = session.get_one(Participant, seat.participant_id)
        participants.consent(person, now=LATER)
    assert seat.participant().consented_at == NOW


def test_answers_before_consent_are_refused(database: Database) -> None:
    study = small_study(database)
    with database.writing() as session:
        seat = Seat(database, participants.enrol(session, study, now=NOW).id)
    with pytest.raises(Forbidden, match="the consent page comes before the first question"):
        seat.submit(seat.question_ids[0])


def test_a_token_finds_its_participant(database: Database, seat: Seat) -> None:
    token = seat.known_token()
    assert token not in seat.participant().token_hash
    with database.reading() as session:
        person = participants.by_token(session, token)
        assert person is not None
        assert person.id == seat.participant_id
        assert participants.by_token(session, token.swapcase()) is None
        assert participants.by_token(session, "") is None


def test_a_person_is_found_by_name(database: Database) -> None:
    study = one_form_each(database)
    key = Seat.taken(database, study).participant_id
    with database.reading() as session:
        study_row = session.get_one(Study, study)
        assert participants.by_name(session, study_row, "p1").id == key
        with pytest.raises(Refused, match="study small has no participant 'p2'"):
            participants.by_name(session, study_row, "p2")
