"""Consent, places that end early, and people who come back: what they read, and who may go on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from hsfiq.annotate.texts import entry_texts
from hsfiq.collect.asked_questions import steps_of
from hsfiq.collect.participants import invite, record_status_change
from hsfiq.db.engine import Database
from hsfiq.db.tables import EnrolmentByAddress, Form, Participant, Question, Study
from hsfiq.errors import NotOpen
from hsfiq.study.languages import standard_texts
from tests.annotate.enrolment.visits import CODE, PROLIFIC, change, the_participant
from tests.annotate.page_requests import answer_body, answer_until, check_body, stored, view
from tests.annotate.served_studies import (
    Place,
    Visit,
    all_of,
    begin,
    browser_of,
    count,
    enrol,
    newcomer,
    plain_browser,
    set_status,
    the_one,
    update_all,
)
from tests.in_process import run_command


def test_from_welcome_page_to_first_question(new_browser: TestClient, database: Database) -> None:
    page, text = new_browser.get("/").text, entry_texts("en")
    assert text["questions"].format(questions=6) in page
    assert text["minutes_estimated"].format(minutes=6) in page
    assert text["data_stored"] in page
    begin(new_browser, database)
    shown = view(new_browser)
    assert shown["step"] == "consent"
    assert "voluntary" in json.dumps(shown["text"])
    assert new_browser.get("/question/1").json()["step"] == "consent"
    shown = new_browser.post("/consent", json={"agrees": True}).json()
    assert shown["step"] == "practice"
    assert new_browser.post("/consent", json={"agrees": True}).json()["step"] == "practice"
    assert new_browser.post("/consent", json={"agrees": False}).status_code == 409
    for image in [shown["reference"], *shown["sets"][0], *shown["sets"][1]]:
        assert new_browser.get(f"/image/{image['token']}").status_code == 200
    assert new_browser.get("/image/practice-22").status_code == 404
    assert new_browser.post("/submit", json=answer_body(shown)).status_code == 403
    for _ in range(2):
        assert new_browser.post("/practice", json={}).json()["step"] == "question"
    participant = the_participant(database)
    assert participant.consented_at
    assert participant.practised_at
    assert participant.status == "active"
    question = view(new_browser)
    update_all(database, consented_at=None)
    assert new_browser.post("/submit", json=answer_body(question)).status_code == 403
    assert stored(database) == []


def test_declining_frees_the_place(visit: Visit) -> None:
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


def test_a_bad_consent_is_refused(new_browser: TestClient, database: Database) -> None:
    begin(new_browser, database)
    bodies: list[object] = [{}, {"agrees": 1}, {"agrees": True, "x": 1}, [], "yes"]
    for body in bodies:
        assert new_browser.post("/consent", json=body).status_code in (400, 422), body
    assert new_browser.post("/practice", json={"score_1": 5}).status_code == 422
    assert view(new_browser)["step"] == "consent"


def test_the_studys_own_texts(visit: Visit) -> None:
    presentation = {"consent": "# Ours\n\n<b>bold</b>", "languages": ("ko",)}
    client, database = visit(presentation=presentation)
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
    assert "Prolific" in shown
    assert consent == "" or text["prolific_id_stored"] in shown
    assert text["address_code_stored"] in shown


@pytest.mark.parametrize(
    ("recruitment", "is_stored"),
    [({"mode": "open"}, True), ({"mode": "open", "enrolments_per_address": 0}, False)],
)
def test_the_pages_say_whether_a_code_of_the_address_is_stored(
    visit: Visit, recruitment: dict[str, Any], is_stored: bool
) -> None:
    client, database = visit(recruitment=recruitment)
    text = entry_texts("en")["address_code_stored"]
    assert (text in client.get("/").text) == is_stored
    begin(client, database)
    assert (text in view(client)["text"]) == is_stored
    assert len(all_of(database, select(EnrolmentByAddress))) == is_stored


def test_of_people_with_a_personal_link_no_code_is_stored(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "invitation"})
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        (invited,) = invite(session, study.id, 1, now=datetime.now(UTC))
        link = f"/start/{invited.token}"
    assert client.get(link).status_code == 303
    assert entry_texts("en")["address_code_stored"] not in view(client)["text"]
    assert all_of(database, select(EnrolmentByAddress)) == []


TEXT = entry_texts("en")
FAREWELL = standard_texts("en")["page"]["farewell"]


def test_the_welcome_page_tells_how_a_participation_stands(
    new_browser: TestClient, database: Database
) -> None:
    def expect_standing(standing: str, button: str = "to_own_page") -> None:
        page = new_browser.get("/").text
        assert (standing in page, TEXT["welcome_back"] in page) == (True, button == "continue")
        assert f">{TEXT[button]}</a>" in page

    begin(new_browser, database)
    new_browser.post("/consent", json={"agrees": False})
    expect_standing(TEXT["declined_before"])
    new_browser.post("/reconsider", json={})
    new_browser.post("/consent", json={"agrees": True})
    new_browser.post("/practice", json={})
    new_browser.post("/submit", json=answer_body(view(new_browser)))
    expect_standing(TEXT["welcome_back"], "continue")
    for status in ("paused", "closed"):
        set_status(database, status)
        expect_standing(FAREWELL[status][0])
    set_status(database, "open")
    for status, kind in (("excluded", "excluded"), ("returned", "ended")):
        change(database, status)
        expect_standing(FAREWELL[kind][0])
    change(database, "active")
    answer_until(new_browser, "done")
    expect_standing(TEXT["finished"])


# ------------------------------------------------------------------------ somebody who declined


def decline(client: TestClient) -> dict[str, Any]:
    declined: dict[str, Any] = client.post("/consent", json={"agrees": False}).json()
    assert declined["kind"] == "declined"
    return declined


def test_somebody_who_declined_can_take_part_after_all(visit: Visit) -> None:
    client, database = visit(questions_per_form=2)
    begin(client, database)
    assert decline(client)["may_reconsider"]
    assert client.post("/reconsider", json={}).json()["step"] == "consent"
    assert client.post("/consent", json={"agrees": True}).json()["step"] == "practice"
    assert client.post("/reconsider", json={}).json()["step"] == "practice"
    client.post("/practice", json={})
    assert answer_until(client, "done")["answered"] == 4


def test_declining_gives_the_place_back(visit: Visit) -> None:
    """Nobody gets a place twice, and nobody comes back to a full study."""
    client, database = visit(recruitment={"participants": 1})
    begin(client, database)
    assert decline(client)["may_reconsider"]
    begin(plain_browser(database), database)
    assert not view(client)["may_reconsider"]
    assert client.post("/reconsider", json={}).status_code == NotOpen.status
    assert view(client)["kind"] == "declined"


def test_nobody_comes_back_who_may_not(visit: Visit) -> None:
    client, database = visit()
    begin(client, database)
    decline(client)
    for status in ("paused", "closed"):
        set_status(database, status)
        assert not view(client)["may_reconsider"]
        assert client.post("/reconsider", json={}).status_code == NotOpen.status
    set_status(database, "open")
    with database.writing() as session:  # screened out by the owner
        person = session.scalars(select(Participant)).one()
        record_status_change(session, person.id, "active", "screened-out", datetime.now(UTC))
        person.status = "screened-out"
    assert view(client)["kind"] == "ended"
    assert client.post("/reconsider", json={}).json()["kind"] == "ended"


def pass_time(database: Database, **time: float) -> None:
    """Move everybody's last sign of life into the past."""
    update_all(database, seen_at=datetime.now(UTC) - timedelta(**time))


def taken(database: Database) -> dict[str, int]:
    """How many forms each participant has."""
    with database.reading() as session:
        forms = select(Participant.name, func.count(Form.id)).join(Form.participant)
        rows = session.execute(forms.group_by(Participant.name))
        return dict(rows.all())  # type: ignore[arg-type]


def fill(app: FastAPI, database: Database) -> list[TestClient]:
    """Two people take all places, and do nothing."""
    return [begin(browser_of(app), database) for _ in range(2)]


def test_the_next_participant_gets_the_place(
    app: FastAPI, new_browser: TestClient, database: Database
) -> None:
    fill(app, database)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=14)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=15)
    assert TEXT["begin"] in new_browser.get("/").text
    n_questions = the_one(database, select(func.count(Question.id)))
    enrol(new_browser, database)
    assert taken(database) == {"p3": 2}
    answer_until(new_browser, "done")
    assert the_one(database, select(func.count(Question.id))) == n_questions


def test_who_has_agreed_keeps_the_place(
    app: FastAPI, new_browser: TestClient, database: Database
) -> None:
    first, _ = fill(app, database)
    first.post("/consent", json={"agrees": True})
    pass_time(database, minutes=15)
    begin(new_browser, database)
    assert taken(database) == {"p1": 2, "p3": 2}


def test_who_comes_back_to_the_page_gets_a_place_again(app: FastAPI, database: Database) -> None:
    first, second = fill(app, database)
    pass_time(database, minutes=15)
    third = begin(browser_of(app), database)
    pass_time(database, minutes=0)
    assert taken(database) == {"p3": 2}
    for client in (first, second):  # one place is left
        client.post("/consent", json={"agrees": True})
    assert view(first)["step"] == "practice"
    farewell = view(second)
    assert (farewell["step"], farewell["kind"]) == ("farewell", "reassigned")
    assert taken(database) == {"p1": 2, "p3": 2}
    pass_time(database, minutes=15)
    second.post("/consent", json={"agrees": True})
    assert view(second)["step"] == "practice"
    assert taken(database) == {"p1": 2, "p2": 2}
    assert view(third)["step"] == "farewell"


def test_the_page_and_a_link_lead_to_a_place_again(
    new_browser: TestClient, copied: Place, database: Database, tmp_path: Path
) -> None:
    link = f"/start/{newcomer(copied, is_ready=False)}"
    assert new_browser.get(link).status_code == 303
    for path in ("/opening", link):
        release_places(database, tmp_path)
        assert taken(database) == {}
        opened = new_browser.get(path)
        assert path == link or opened.json()["view"]["step"] == "consent"
        assert taken(database) == {"p1": 2}


def release_places(database: Database, folder: Path) -> None:
    pass_time(database, minutes=15)
    run_command(folder, "participant", "release", "--database", str(database.engine.url))


def test_a_platforms_link_leads_to_a_place_again(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for _ in range(2):
        assert client.get("/start", params=PROLIFIC).status_code == 303
        assert taken(database) == {"p1": 2}
        release_places(database, tmp_path)
        assert taken(database) == {}
    assert count(database) == 1


def test_one_command_gives_places_back(app: FastAPI, database: Database, tmp_path: Path) -> None:
    first, second = fill(app, database)
    first.post("/consent", json={"agrees": True})
    first.post("/practice", json={})
    first.post("/submit", json=answer_body(view(first)))
    release = ("participant", "release", "--database", str(database.engine.url))
    assert run_command(tmp_path, *release) == "study telltale-study: 0 places given back\n"
    done = run_command(tmp_path, *release, "--minutes", "0", "--json")
    assert json.loads(done) == {"study": "telltale-study", "released": ["p2"]}
    assert taken(database) == {"p1": 2}
    listed = run_command(tmp_path, "participant", "list", "--database", str(database.engine.url))
    assert listed.splitlines()[2].split()[:6] == ["p2", "without", "a", "place", "0", "0"]
    assert view(second)["step"] == "farewell"
    assert view(first)["number"] == 2


def test_the_time_can_be_changed_and_left_to_the_lease(
    app: FastAPI, new_browser: TestClient, database: Database, tmp_path: Path
) -> None:
    fill(app, database)
    change = ("study", "enrolment", "telltale-study", "--unbegun-minutes", "0")
    options = ("--per-address", "7", "--json", "--database", str(database.engine.url))
    rules = {"enrolments_per_address": 7, "unbegun_minutes": 0, "signed_links": False}
    printed = run_command(tmp_path, *change, *options)
    assert json.loads(printed) == {"study": "telltale-study", **rules}
    pass_time(database, minutes=60)
    assert TEXT["begin"] not in new_browser.get("/").text
    pass_time(database, minutes=121)
    assert TEXT["begin"] in new_browser.get("/").text


def test_the_code_is_shown_only_at_the_end(visit: Visit) -> None:
    client, database = visit(recruitment=CODE)
    begin(client, database)
    texts = [json.dumps(view(client))]
    enrol(client, database)
    while (shown := view(client))["step"] != "done":
        texts.append(json.dumps(shown))
        if shown["step"] == "check":
            client.post("/check", json=check_body(shown))
        else:
            client.post("/submit", json=answer_body(shown))
    assert not any("C1<2>3" in text or "example.org" in text for text in texts)
    assert (shown["code"], shown["url"]) == (CODE["completion_code"], CODE["completion_url"])


@pytest.mark.parametrize(("status", "kind", "has_code"), [
    ("paused", "paused", False),
    ("excluded", "excluded", True),
    ("returned", "ended", False),
    ("screened-out", "ended", True),
    ("closed", "closed", True),
])  # fmt: skip
def test_who_is_excluded_or_late_after_an_answer(
    visit: Visit, status: str, kind: str, has_code: bool
) -> None:
    client, database = visit(recruitment=CODE)
    enrol(client, database)
    following = client.post("/submit", json=answer_body(view(client))).json()["view"]
    (set_status if status == "closed" else change)(database, status)
    shown = view(client)
    assert (shown["step"], shown["kind"], "code" in shown) == ("farewell", kind, has_code)
    assert (shown["back"], shown.get("code", "C1<2>3")) == (None, "C1<2>3")
    assert view(client, 1)["step"] == "farewell"
    assert client.post("/submit", json=answer_body(following)).status_code == 410
    assert len(stored(database)) == 1


def reassign(database: Database, *, only: int | None = None) -> None:
    """Reassign the first participant's open questions."""
    with database.writing() as session:
        person = session.scalars(select(Participant).order_by(Participant.id)).first()
        assert person
        steps = [s for s in steps_of(session, person.id).steps if not s.done and not s.check_id]
        for step in steps[:only]:
            session.get_one(Question, step.question_id).reassigned = True


def test_a_reassigned_question_is_refused(annotator: TestClient, database: Database) -> None:
    current_view = view(annotator)
    reassign(database, only=1)
    answer = annotator.post("/submit", json=answer_body(current_view))
    assert (answer.status_code, answer.json()["reassigned"]) == (403, True)
    assert stored(database) == []
    now_at = view(annotator)
    assert (now_at["number"], now_at["total"]) == (1, 5)


def test_a_partial_participation_is_acknowledged(annotator: TestClient, database: Database) -> None:
    annotator.post("/submit", json=answer_body(view(annotator)))
    reassign(database)
    shown = view(annotator)
    assert (shown["step"], shown["answered"], shown["passed_on"]) == ("done", 1, True)


# ----------------------------------------------------------------------- reasons and time left


def test_a_reason_is_asked_on_every_second_question(visit: Visit) -> None:
    client, database = visit(reason_every=2)
    enrol(client, database)
    reasons_asked = []
    while (shown := view(client))["step"] != "done":
        if shown["step"] == "check":
            client.post("/check", json=check_body(shown))
            continue
        reasons_asked.append(shown["reason_asked"])
        if shown["reason_asked"]:
            for short in (None, "", "  ab  ", "ab\ufeff"):
                body = answer_body(shown, "short-reason-1234", reason=short)
                assert client.post("/submit", json=body).status_code == 422
        body = answer_body(shown, reason="abc" if shown["reason_asked"] else None)
        assert client.post("/submit", json=body).status_code == 200
    assert reasons_asked == [False, True] * 3
    assert [row.reason for row in stored(database)] == [None, "abc"] * 3


def test_time_left_depends_on_participants_pace(annotator: TestClient, database: Database) -> None:
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
