"""Arrivals from Prolific, and each platform's codes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import select
from sqlalchemy.orm.attributes import flag_modified

from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.studies import bind_platform_study, find_study
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Query
from hsfiq.db.tables import Participant, Study
from hsfiq.study.config import config_of
from hsfiq.study.design import draw_study
from tests.annotate.enrolment.visits import (
    CODE,
    MTURK,
    PERSON,
    PROLIFIC,
    Visit,
    count,
    the_participant,
)
from tests.annotate.served_studies import (
    Place,
    begin,
    set_status,
)


def test_the_same_prolific_link_twice_makes_one_participant(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for _ in range(2):
        answer = client.get("/start", params=PROLIFIC)
        assert (answer.status_code, answer.headers["location"]) == (303, "study/")
        client.cookies.clear()
    assert count(database) == 1
    participant = the_participant(database)
    assert (participant.source, participant.external_id) == ("prolific", PERSON)


def test_the_session_of_the_platform_is_not_stored(visit: Visit, place: Place) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    assert client.get("/start", params=PROLIFIC).status_code == 303
    assert the_participant(database).external_id == PERSON
    database.close()
    assert PROLIFIC["SESSION_ID"].encode() not in place.file.read_bytes()


@pytest.mark.parametrize("parameters", [
    {},
    {"STUDY_ID": "64ab"},
    {"PROLIFIC_PID": ""},
    {"PROLIFIC_PID": "a b"},
    {"PROLIFIC_PID": "<script>"},
    {"PROLIFIC_PID": "{{%PROLIFIC_PID%}}"},
    {"PROLIFIC_PID": "a" * 65},
    {"PROLIFIC_PID": PERSON, "SESSION_ID": "../x"},
    {"workerId": "A1", "hitId": "\N{DRESS}"},
], ids=str)  # fmt: skip
def test_a_malformed_platform_id_is_refused(visit: Visit, parameters: dict[str, str]) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    assert client.get("/start", params=parameters).status_code == 400
    assert count(database) == 0


def test_a_platform_link_opens_only_studies_of_that_platform(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    assert client.get("/start", params=MTURK).status_code == 404
    assert client.get("/start", params=PROLIFIC | {"study": "other"}).status_code == 404
    assert client.get("/start", params=PROLIFIC | {"study": "telltale-study"}).status_code == 303
    assert count(database) == 1


def bound_to(database: Database) -> str | None:
    with database.reading() as session:
        return session.scalars(select(Study.platform_study_id)).one()


def bind(database: Database, name: str = "telltale-study", to: str = "64ab") -> None:
    with database.writing() as session:
        study = find_study(session, name)
        assert study is not None
        bind_platform_study(session, study, to)


def test_no_arrival_binds_a_study(visit: Visit) -> None:
    """A stranger with an invented STUDY_ID would turn everybody else away."""
    client, database = visit(queries=24, recruitment={"mode": "prolific"})
    for person, study in (("stranger", "invented"), (PERSON, "64ab"), ("another", "64ab")):
        client.cookies.clear()
        parameters = {"PROLIFIC_PID": person, "STUDY_ID": study}
        assert client.get("/start", params=parameters).status_code == 303
        assert bound_to(database) is None
    bind(database)
    client.cookies.clear()
    parameters = {"PROLIFIC_PID": "stranger", "STUDY_ID": "invented"}
    assert client.get("/start", params=parameters).status_code == 409


def test_only_people_from_the_bound_study_are_let_in(visit: Visit) -> None:
    client, database = visit(queries=24, recruitment={"mode": "prolific"})
    without = {"PROLIFIC_PID": "earlier"}
    assert client.get("/start", params=without).status_code == 303
    bind(database)
    client.cookies.clear()
    assert client.get("/start", params=PROLIFIC).status_code == 303
    client.cookies.clear()
    for parameters in (PROLIFIC, PROLIFIC | {"PROLIFIC_PID": "another"}):
        other_study = parameters | {"STUDY_ID": "64cd"}
        for named in ({}, {"study": "telltale-study"}):
            answer = client.get("/start", params=other_study | named)
            assert answer.status_code == 409
            assert entry_texts("en")["other_platform_study"] in answer.text
            assert COOKIE not in client.cookies
        korean = client.get("/start", params=other_study, headers={"Accept-Language": "ko"})
        assert entry_texts("ko")["other_platform_study"] in korean.text
    assert (count(database), bound_to(database)) == (2, PROLIFIC["STUDY_ID"])
    for parameters in (PROLIFIC | {"PROLIFIC_PID": "another"}, without):
        client.cookies.clear()
        assert client.get("/start", params=parameters).status_code == 303
    with database.reading() as session:
        stored_ids = session.scalars(
            select(Participant.platform_study_id).order_by(Participant.id)
        ).all()
    assert stored_ids == [None, "64ab", "64ab"]


def test_a_refused_arrival_binds_nothing(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    set_status(database, "closed")
    assert client.get("/start", params=PROLIFIC).status_code == 410
    assert bound_to(database) is None


def test_a_second_prolific_study_does_not_break_the_first_link(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    assert client.get("/start", params=PROLIFIC).status_code == 303
    bind(database)
    with database.writing() as session:
        first = session.scalars(select(Study)).one()
        config = config_of(first)
        second = replace(
            config,
            study=replace(config.study, name="second"),
            recruitment=replace(config.recruitment, platform_study_id=""),
        )
        draw_study(session, second, session.scalars(select(Query.id)).all())
    bind(database, "second", "64cd")
    arrivals = [
        ({"PROLIFIC_PID": "b", "STUDY_ID": "64ab"}, 303),
        ({"PROLIFIC_PID": "c", "STUDY_ID": "64cd"}, 303),
        ({"PROLIFIC_PID": "d", "STUDY_ID": "64cd"}, 303),
        ({"PROLIFIC_PID": "e", "STUDY_ID": "64ef"}, 409),
        ({"PROLIFIC_PID": "f", "STUDY_ID": "64cd", "study": first.name}, 409),
    ]
    for parameters, status in arrivals:
        client.cookies.clear()
        assert client.get("/start", params=parameters).status_code == status
    statement = select(Participant.external_id, Study.name).join(Participant.study)
    with database.reading() as session:
        people = sorted(tuple(row) for row in session.execute(statement))
    assert people == [(PERSON, first.name), ("b", first.name), ("c", "second"), ("d", "second")]


@pytest.mark.parametrize(
    ("mode", "title"),
    [
        ("prolific", "Begin on Prolific"),
        ("mturk", "Begin on Mechanical Turk"),
        ("invitation", entry_texts("en")["no_study_title"]),
    ],
)
def test_the_welcome_page_says_where_a_study_takes_people(
    visit: Visit, mode: str, title: str
) -> None:
    client, database = visit(recruitment={"mode": mode})
    assert f"<h1>{title}</h1>" in client.get("/").text
    set_status(database, "closed")
    assert entry_texts("en")["no_study_title"] in client.get("/").text


@pytest.mark.parametrize("mode", ["prolific", "mturk", "invitation"])
def test_open_enrolment_only_in_open_studies(visit: Visit, mode: str) -> None:
    client, database = visit(recruitment={"mode": mode})
    assert "/enrol" not in client.get("/").text
    assert client.post("/enrol", data={"study": 1}).status_code == 410
    assert count(database) == 0


def test_a_late_platform_participant_gets_the_code(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific", "participants": 1, **CODE})
    assert client.get("/start", params=PROLIFIC).status_code == 303
    client.cookies.clear()
    parameters = PROLIFIC | {"PROLIFIC_PID": "another"}
    for _ in ("full", "closed"):
        answer = client.get("/start", params=parameters)
        assert answer.status_code == 410
        assert "C1&lt;2&gt;3" in answer.text
        assert CODE["completion_url"] in answer.text
        set_status(database, "closed")
    assert count(database) == 1


def test_each_outcome_has_its_code_and_address(visit: Visit) -> None:
    codes = {"full_code": "FU11", "declined_code": "N0", "participants": 1}
    client, _ = visit(recruitment={"mode": "prolific", **CODE, **codes})
    assert client.get("/start", params=PROLIFIC).status_code == 303
    client.cookies.clear()
    late = client.get("/start", params=PROLIFIC | {"PROLIFIC_PID": "another"})
    assert (late.status_code, "FU11" in late.text, "C1&lt;2" in late.text) == (410, True, False)
    assert "example.org" not in late.text  # the address does not name the usual code
    client.get("/start", params=PROLIFIC)
    declined = client.post("/consent", json={"agrees": False}).json()
    assert (declined["kind"], declined["code"], declined["url"]) == ("declined", "N0", "")


def test_a_full_study_that_is_open_to_all_shows_only_its_own_code(visit: Visit) -> None:
    client, database = visit(recruitment={"participants": 1, **CODE})
    begin(client, database)
    client.cookies.clear()
    assert "C1&lt;2" not in client.post("/enrol", data={"study": 1}).text
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        study.design["recruitment"]["full_code"] = "FU11"
        flag_modified(study, "design")
    assert "FU11" in client.post("/enrol", data={"study": 1}).text
