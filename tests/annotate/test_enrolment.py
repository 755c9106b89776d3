"""Enrolment, consent, practice, reassignment and completion."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm.attributes import flag_modified

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import participants
from hsfiq.collect.steps import steps_of
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Query, Question, Study
from hsfiq.study.config import config_of
from hsfiq.study.design import draw_study
from hsfiq.study.languages.standard import LANGUAGES, leaves, standard_texts
from hsfiq.study.languages.tags import preferred
from tests.annotate.page_requests import KEY, answer_body, answer_until, check_body, stored, view
from tests.annotate.served_studies import (
    TITLE,
    Place,
    begin,
    enrol,
    make_study,
    newcomer,
    set_status,
)

PERSON = "5f8e0c1d2b3a4c5d6e7f8a9b"
PROLIFIC = {"PROLIFIC_PID": PERSON, "STUDY_ID": "64ab", "SESSION_ID": "77cd"}
MTURK = {"workerId": "A1B2C3D4E5", "assignmentId": "3XYZ", "hitId": "30H4"}
CODE = {"completion_code": "C1<2>3", "completion_url": "https://app.example.org/complete?cc=C1"}

Visit = Callable[..., tuple[TestClient, Database]]


@pytest.fixture
def app(database: Database) -> FastAPI:
    """The app without Gradio, which is slow to mount."""
    return plain_app(Services.of(database))


@pytest.fixture
def visit(place: Place) -> Iterator[Visit]:
    """A new browser for a study made for the test."""
    opened: list[tuple[TestClient, Database]] = []

    def start_visit(**options: Any) -> tuple[TestClient, Database]:
        database = make_study(place, **options)
        client = TestClient(plain_app(Services.of(database)), follow_redirects=False)
        opened.append((client.__enter__(), database))
        return opened[-1]

    yield start_visit
    for client, database in opened:
        client.__exit__()
        database.close()


def count(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count(Participant.id))) or 0


def the_participant(database: Database) -> Participant:
    with database.reading() as session:
        return session.scalars(select(Participant)).one()


def change(database: Database, status: str) -> None:
    with database.writing() as session:
        participants.set_status(session.scalars(select(Participant)).one(), status)


# ------------------------------------------------------------------------------- personal links


def test_a_personal_link_continues_on_any_device(
    new_browser: TestClient, copied: Place, database: Database
) -> None:
    token = newcomer(copied, is_ready=False)
    for _ in range(2):
        answer = new_browser.get(f"/start/{token}")
        assert (answer.status_code, answer.headers["location"]) == (303, "../study/")
        assert answer.headers["cache-control"] == "no-store"
        assert view(new_browser)["step"] == "consent"
        new_browser.cookies.clear()  # another device
    new_browser.get(f"/start/{token}")
    new_browser.post("/consent", json={"agrees": True})
    new_browser.post("/practice", json={})
    new_browser.post("/submit", json=answer_body(view(new_browser)))
    new_browser.cookies.clear()
    new_browser.get(f"/start/{token}")
    assert view(new_browser)["number"] == 2
    assert count(database) == 1


@pytest.mark.parametrize(
    "token", ["x", "..%2f..%2fstudy.db", "%00", "a" * 65, "<script>", "None", "1"]
)
def test_an_invalid_link(new_browser: TestClient, token: str) -> None:
    answer = new_browser.get(f"/start/{token}")
    assert answer.status_code == 404
    assert COOKIE not in new_browser.cookies
    assert "script>" not in answer.text


def test_an_invited_participant_who_is_too_late(visit: Visit, place: Place) -> None:
    client, database = visit(recruitment={"mode": "invitation", **CODE})
    token = newcomer(place, is_ready=False)
    for status, message in (("paused", "come back later"), ("closed", "C1&lt;2&gt;3")):
        set_status(database, status)
        answer = client.get(f"/start/{token}")
        assert answer.status_code == 410
        assert message in answer.text
        assert COOKIE not in client.cookies
    assert "Begin" not in client.get("/").text


# ------------------------------------------------------------------------------- platforms


def test_the_same_prolific_link_twice_makes_one_participant(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for _ in range(2):
        answer = client.get("/start", params=PROLIFIC)
        assert (answer.status_code, answer.headers["location"]) == (303, "study/")
        client.cookies.clear()
    assert count(database) == 1
    participant = the_participant(database)
    assert (participant.source, participant.external_id) == ("prolific", PERSON)


def test_only_the_platform_id_is_stored(visit: Visit, place: Place) -> None:
    client, database = visit(recruitment={"mode": "mturk"})
    assert client.get("/start", params=MTURK).status_code == 303
    assert the_participant(database).external_id == MTURK["workerId"]
    database.close()
    content = place.file.read_bytes()
    assert MTURK["assignmentId"].encode() not in content
    assert MTURK["hitId"].encode() not in content


def test_a_preview_enrols_no_participant(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "mturk"})
    preview = MTURK | {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}
    for parameters in (preview, {"assignmentId": preview["assignmentId"], "hitId": "x"}):
        answer = client.get("/start", params=parameters)
        assert answer.status_code == 200
        assert f"<h1>{TITLE}</h1>" in answer.text
        assert entry_texts("en")["preview"] in answer.text
    assert count(database) == 0


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


def test_the_first_arrival_binds_the_study_to_the_platforms_study(visit: Visit) -> None:
    client, database = visit(queries=24, recruitment={"mode": "prolific"})
    without = {"PROLIFIC_PID": "earlier"}
    assert client.get("/start", params=without).status_code == 303
    assert bound_to(database) is None
    client.cookies.clear()
    assert client.get("/start", params=PROLIFIC).status_code == 303
    assert bound_to(database) == PROLIFIC["STUDY_ID"]
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
    with database.writing() as session:
        first = session.scalars(select(Study)).one()
        config = config_of(first)
        second = replace(
            config,
            study=replace(config.study, name="second"),
            recruitment=replace(config.recruitment, platform_study_id=""),
        )
        draw_study(session, second, session.scalars(select(Query.id)).all())
    arrivals = [
        ({"PROLIFIC_PID": "b", "STUDY_ID": "64ab"}, 303),
        ({"PROLIFIC_PID": "c", "STUDY_ID": "64cd"}, 303),  # binds the second
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


@pytest.mark.parametrize("mode", ["prolific", "mturk", "invitation"])
def test_open_enrolment_only_in_open_studies(visit: Visit, mode: str) -> None:
    client, database = visit(recruitment={"mode": mode})
    assert "Begin" not in client.get("/").text
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


# ------------------------------------------------------------------------------- consent, practice


def test_from_the_welcome_page_to_the_first_question(
    new_browser: TestClient, database: Database
) -> None:
    begin(new_browser, database)
    current_view = view(new_browser)
    assert current_view["step"] == "consent"
    assert "voluntary" in json.dumps(current_view["text"])
    assert new_browser.get("/question/1").json()["step"] == "consent"
    current_view = new_browser.post("/consent", json={"agrees": True}).json()
    assert (current_view["step"], current_view["expected"]) == ("practice", {"better": 1})
    assert new_browser.post("/consent", json={"agrees": True}).json()["step"] == "practice"
    for image in [current_view["reference"], *current_view["sets"][0], *current_view["sets"][1]]:
        assert new_browser.get(f"/image/{image['token']}").status_code == 200
    assert new_browser.get("/image/practice-11").status_code == 404
    body = answer_body(current_view)
    assert new_browser.post("/submit", json=body).status_code == 403
    for _ in range(2):
        assert new_browser.post("/practice", json={}).json()["step"] == "question"
    participant = the_participant(database)
    assert participant.consented_at
    assert participant.practised_at
    assert stored(database) == []


def test_no_answer_before_consent(new_browser: TestClient, database: Database) -> None:
    enrol(new_browser, database)
    current_view = view(new_browser)
    with database.writing() as session:
        session.scalars(select(Participant)).one().consented_at = None
    assert new_browser.post("/submit", json=answer_body(current_view)).status_code == 403
    assert stored(database) == []


def test_declining_is_final_and_frees_the_place(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific", "participants": 1, **CODE})
    client.get("/start", params=PROLIFIC)
    current_view = client.post("/consent", json={"agrees": False}).json()
    assert (current_view["step"], current_view["kind"]) == ("farewell", "declined")
    assert "code" not in current_view
    assert client.post("/consent", json={"agrees": True}).json()["kind"] == "declined"
    assert client.get("/start", params=PROLIFIC).status_code == 303
    assert view(client)["kind"] == "declined"
    assert the_participant(database).status == "screened-out"
    other_participant = PROLIFIC | {"PROLIFIC_PID": "another"}
    assert client.get("/start", params=other_participant).status_code == 303
    assert view(client)["step"] == "consent"


def test_declining_after_agreeing_is_refused(annotator: TestClient, database: Database) -> None:
    assert annotator.post("/consent", json={"agrees": False}).status_code == 409
    assert the_participant(database).status == "active"


@pytest.mark.parametrize("body", [{}, {"agrees": 1}, {"agrees": True, "x": 1}, [], "yes"])
def test_a_bad_consent_is_refused(
    new_browser: TestClient, database: Database, body: object
) -> None:
    begin(new_browser, database)
    assert new_browser.post("/consent", json=body).status_code in (400, 422)
    assert new_browser.post("/practice", json={"score_1": 5}).status_code == 422
    assert view(new_browser)["step"] == "consent"


def test_the_studys_own_texts(visit: Visit) -> None:
    client, database = visit(
        presentation={"consent": "# Ours\n\n<b>bold</b>", "languages": ("ko",)}
    )
    begin(client, database)
    shown = view(client)["text"]
    assert "Ours</h" in shown
    assert "<b>" not in shown
    assert '<html lang="ko" dir="ltr">' in client.get("/").text
    assert entry_texts("ko")["continue"] in client.get("/").text


@pytest.mark.parametrize("consent", ["", "Do you agree?"])
@pytest.mark.parametrize("language", ["en", "ko"])
def test_everybody_reads_before_they_agree_what_is_asked_and_kept(
    visit: Visit, consent: str, language: str
) -> None:
    presentation = {"consent": consent, "languages": (language,), "minutes": 42}
    client, _ = visit(presentation=presentation, recruitment={"mode": "prolific", **CODE})
    client.get("/start", params=PROLIFIC)
    shown, text = view(client)["text"], entry_texts(language)
    assert text["questions"].format(questions=6) in shown
    assert text["minutes_set"].format(minutes=42) in shown
    assert (text["data_stored"] in shown) == (consent != "")  # the standard text says it, too
    assert (text["platform_id_stored"] in shown) == (consent != "")


def test_the_welcome_page_says_how_long_it_takes(new_browser: TestClient) -> None:
    page, text = new_browser.get("/").text, entry_texts("en")
    assert text["questions"].format(questions=6) in page
    assert text["minutes_estimated"].format(minutes=6) in page
    assert text["data_stored"] in page


# ---------------------------------------------------------------------------------------- early end


def test_the_code_is_shown_only_at_the_end(visit: Visit) -> None:
    client, database = visit(recruitment=CODE)
    begin(client, database)
    texts = [json.dumps(view(client))]
    enrol(client, database)
    current_view = view(client)
    while current_view["step"] != "done":
        texts.append(json.dumps(current_view))
        if current_view["step"] == "check":
            current_view = client.post("/check", json=check_body(current_view)).json()["view"]
        else:
            current_view = client.post("/submit", json=answer_body(current_view)).json()["view"]
    assert not any("C1<2>3" in text or "example.org" in text for text in texts)
    assert (current_view["code"], current_view["url"]) == (
        CODE["completion_code"],
        CODE["completion_url"],
    )


@pytest.mark.parametrize(("status", "kind", "has_code"), [
    ("paused", "paused", False),
    ("excluded", "ended", True),
    ("returned", "ended", False),
    ("screened-out", "ended", True),
])  # fmt: skip
def test_a_participant_excluded_after_an_answer(
    visit: Visit, status: str, kind: str, has_code: bool
) -> None:
    client, database = visit(recruitment=CODE)
    enrol(client, database)
    following = client.post("/submit", json=answer_body(view(client))).json()["view"]
    change(database, status)
    current_view = view(client)
    assert (current_view["step"], current_view["kind"], "code" in current_view) == (
        "farewell",
        kind,
        has_code,
    )
    assert view(client, 1)["step"] == "farewell"
    assert client.post("/submit", json=answer_body(following)).status_code == 410
    assert len(stored(database)) == 1


def test_a_closed_study_gives_late_participants_the_code(visit: Visit) -> None:
    client, database = visit(recruitment=CODE)
    enrol(client, database)
    set_status(database, "closed")
    current_view = view(client)
    assert (current_view["kind"], current_view["code"], current_view["back"]) == (
        "closed",
        "C1<2>3",
        None,
    )


def reassign(database: Database, *, only: int | None = None) -> None:
    """Reassign the first participant's open questions."""
    with database.writing() as session:
        person = session.scalars(select(Participant).order_by(Participant.id)).first()
        assert person
        steps = [s for s in steps_of(session, person).steps if not s.done and not s.check_id]
        for step in steps[:only]:
            session.get_one(Question, step.question_id).reassigned = True


def test_a_reassigned_question_is_refused(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    reassign(database, only=1)
    answer = annotator.post("/submit", json=answer_body(current_view))
    assert (answer.status_code, answer.json()["handed_on"]) == (403, True)
    assert stored(database) == []
    now_at = view(annotator)
    assert (now_at["number"], now_at["total"]) == (1, 5)


def test_questions_are_reassigned_after_the_lease(
    annotator: TestClient, app: FastAPI, database: Database
) -> None:
    with TestClient(app, follow_redirects=False) as second, TestClient(app) as third:
        enrol(second, database)  # now every form is taken
        with database.writing() as session:
            first = session.scalars(select(Participant).order_by(Participant.id)).first()
            assert first
            first.seen_at = datetime.now(UTC) - timedelta(days=1)
        current_view = view(annotator)  # a sign of life: it stays theirs
        with database.writing() as session:
            first = session.get_one(Participant, first.id)
            first.seen_at = datetime.now(UTC) - timedelta(days=1)
        third.follow_redirects = False
        enrol(third, database)
        assert annotator.post("/submit", json=answer_body(current_view)).status_code == 403
        assert view(annotator)["kind"] == "handed-on"
        assert answer_until(third, "done")["total"] == 6
    with database.reading() as session:
        assert session.scalar(select(func.count(Form.id)).where(Form.participant_id.is_(None))) == 0


def test_a_partial_participation_is_acknowledged(annotator: TestClient, database: Database) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    reassign(database)
    current_view = view(annotator)
    assert (current_view["step"], current_view["answered"], current_view["passed_on"]) == (
        "done",
        1,
        True,
    )


# ----------------------------------------------------------------------- reasons and time left


def test_a_reason_is_asked_on_every_second_question(visit: Visit) -> None:
    client, database = visit(reason_every=2)
    enrol(client, database)
    current_view = view(client)
    reasons_asked = []
    while current_view["step"] != "done":
        if current_view["step"] == "check":
            current_view = client.post("/check", json=check_body(current_view)).json()["view"]
            continue
        reasons_asked.append(current_view["reason_asked"])
        if current_view["reason_asked"]:
            for short in (None, "", "  ab  ", "ab\ufeff"):
                body = answer_body(current_view, "short-reason-1234", reason=short)
                assert client.post("/submit", json=body).status_code == 422
        body = answer_body(current_view, reason="abc" if current_view["reason_asked"] else None)
        current_view = client.post("/submit", json=body).json()["view"]
    assert reasons_asked == [False, True] * 3
    assert [row.reason for row in stored(database)] == [None, "abc"] * 3


def test_the_time_left_depends_on_the_participants_pace(
    annotator: TestClient, database: Database
) -> None:
    minutes_left = []
    for seconds in (10, 40, 900):
        current_view = view(annotator)
        minutes_left.append(current_view["minutes_left"])
        with database.writing() as session:
            for question in session.scalars(select(Question)):
                question.served_at = datetime.now(UTC) - timedelta(hours=1)
        annotator.post("/submit", json=answer_body(current_view, active_seconds=seconds))
    assert minutes_left == [None, None, None]
    assert view(annotator)["minutes_left"] == 2  # three times 40 seconds


# ------------------------------------------------------------------------ unknown browsers


def test_every_other_route_refuses_an_unknown_browser(
    app: FastAPI, new_browser: TestClient
) -> None:
    public = {"/", "/enrol", "/start", "/start/{token}", "/healthz"}
    routes = {(method, route.path) for route in app.routes for method in route.methods}  # type: ignore[attr-defined]
    closed = [(method, path) for method, path in routes if path not in public]
    assert {path for _, path in closed} == {
        "/image/{token}", "/image/{token}/full", "/question", "/question/{number}", "/submit",
        "/check", "/consent", "/practice", "/continue", "/opening", "/messages-seen",
        "/questionnaire", "/language",
    }  # fmt: skip
    assert new_browser.post("/continue", data={"participant": 1}).status_code == 401
    closed.remove(("POST", "/continue"))
    bodies: dict[str, Any] = {
        "/submit": {
            "assignment": "x",
            "submit_key": KEY,
            "skip": True,
            "images": {"reference": "shown", "sets": [["shown"], ["shown"]]},
        },
        "/check": {"assignment": "x", "given": "1"},
        "/consent": {"agrees": True},
        "/practice": {},
        "/messages-seen": {"messages": [1]},
        "/language": {"language": "en", "number": None},
        "/questionnaire": {"assignment": "x", "answers": {}},
    }
    for method, path in closed:
        address = path.replace("{number}", "1")
        for token in ("practice-1", "0" * 32):
            answer = new_browser.request(
                method, address.replace("{token}", token), json=bodies.get(path)
            )
            assert answer.status_code == 401, (method, path)


# ------------------------------------------------------------------------------- languages


def gaps(value: object) -> object:
    """The structure of texts: keys, lengths of lists, and placeholders."""
    if isinstance(value, dict):
        return {key: gaps(part) for key, part in value.items()}
    if isinstance(value, list):
        return [gaps(part) for part in value]
    return sorted(set(re.findall(r"\{\w+\}", str(value))))


def test_every_language_has_every_text() -> None:
    assert LANGUAGES == ("en", "ko")
    assert gaps(standard_texts("ko")) == gaps(standard_texts("en"))
    for language in LANGUAGES:
        assert all(str(text).strip() for _, text in leaves(standard_texts(language)))


def test_the_anchors_are_those_of_the_papers() -> None:
    assert standard_texts("en")["page"]["anchors"] == [
        "Does not match at all",
        "Does not match",
        "Matches to an average degree",
        "Matches",
        "Matches very well",
    ]


@pytest.mark.parametrize(("accepted", "language"), [
    ("", "en"), ("ko-KR,ko;q=0.9,en;q=0.8", "ko"), ("de, EN-gb;q=0.5, ko;q=0.1", "en"), ("*", "en"),
])  # fmt: skip
def test_an_unknown_browser_gets_its_own_language(accepted: str, language: str) -> None:
    assert preferred(accepted, LANGUAGES) == language
