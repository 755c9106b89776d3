"""Workers of Mechanical Turk, without a browser: links, tickets in addresses, and their HITs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.annotate.app import plain_app
from hsfiq.annotate.cookies import COOKIE
from hsfiq.annotate.handlers import Services
from hsfiq.annotate.mturk import FramedPages
from hsfiq.annotate.security import StudyMiddleware
from hsfiq.annotate.texts import entry_texts
from hsfiq.collect import owner
from hsfiq.collect.recruiting import allow_people
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Study, WorkedHit
from tests.annotate.enrolment.visits import MTURK, PROLIFIC, count, the_participant
from tests.annotate.page_requests import answer_body, check_body
from tests.annotate.served_studies import Place, make_study, set_status

ENTRY = entry_texts("en")
SITES = "https://www.mturk.com https://workersandbox.mturk.com https://worker.mturk.com"
FRAMED = f"frame-ancestors {SITES};"

Visit = Callable[..., tuple[TestClient, Database]]


@pytest.fixture
def visit(place: Place) -> Iterator[Visit]:
    """A browser for a study with one participant's places, and the study's database."""
    with ExitStack() as stack:

        def start(**recruitment: Any) -> tuple[TestClient, Database]:
            design = {"questions_per_form": 2, "forms_per_participant": 1}
            recruitment = {"mode": "mturk", "participants": 1, **recruitment}
            database = make_study(place, recruitment=recruitment, **design)
            stack.callback(database.close)
            services = Services.of(database)
            app = plain_app(services)
            app.add_middleware(StudyMiddleware, pages={})
            app.add_middleware(FramedPages, signer=services.signer)
            client = TestClient(app, follow_redirects=False)
            return stack.enter_context(client), database

        yield start


def begin(client: TestClient, link: Mapping[str, str] = MTURK) -> str:
    """Press Begin; the address of the app under the worker's ticket."""
    begun = client.post("/start", params=link)
    assert begun.status_code == 303, begun.text
    assert "set-cookie" not in begun.headers
    return f"/{begun.headers['location'].removesuffix('study/')}"


def answer_all(client: TestClient, root: str) -> dict[str, Any]:
    """Agree and answer everything; the last view."""
    client.post(f"{root}consent", json={"agrees": True})
    shown: dict[str, Any] = client.post(f"{root}practice", json={}).json()
    while shown["step"] in ("question", "check"):
        if shown["step"] == "check":
            shown = client.post(f"{root}check", json=check_body(shown)).json()["view"]
        else:
            key = secrets.token_hex(8)
            shown = client.post(f"{root}submit", json=answer_body(shown, key)).json()["view"]
    return shown


def the_hit(database: Database) -> tuple[str, str, str]:
    with database.reading() as session:
        hit = session.scalars(select(WorkedHit)).one()
        return hit.assignment_id, hit.hit_id, hit.submit_to


def forms_taken(database: Database) -> int:
    with database.reading() as session:
        return len(session.scalars(select(Form).where(Form.participant_id.is_not(None))).all())


# ------------------------------------------------------------------------------ before enrolment


def test_a_preview_shows_the_task_and_takes_no_place(visit: Visit) -> None:
    client, database = visit()
    preview = MTURK | {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}
    for link in (preview, {"assignmentId": preview["assignmentId"], "hitId": "x"}):
        for ask in (client.get, client.post):
            answer = ask("/start", params=link)
            assert answer.status_code == 200
            assert ENTRY["preview"] in answer.text
            assert "<h3>What to do</h3>" in answer.text
            assert FRAMED in answer.headers["content-security-policy"]
    assert (count(database), forms_taken(database)) == (0, 0)


def test_a_worker_takes_a_place_only_by_the_button(visit: Visit) -> None:
    client, database = visit()
    asked = client.get("/start", params=MTURK)
    assert asked.status_code == 200
    assert ENTRY["hit_accepted"] in asked.text
    assert FRAMED in asked.headers["content-security-policy"]
    assert asked.headers["referrer-policy"] == "no-referrer"
    assert "set-cookie" not in asked.headers
    assert (count(database), forms_taken(database)) == (0, 0)
    refused = client.post("/start", params=MTURK, headers={"Sec-Fetch-Site": "cross-site"})
    assert (refused.status_code, count(database)) == (403, 0)
    begin(client)
    assert the_participant(database).source == "mturk"
    assert the_hit(database) == ("3XYZ", "30H4", "https://www.mturk.com")


@pytest.mark.parametrize("changes", [
    {"turkSubmitTo": ""},
    {"turkSubmitTo": "http://www.mturk.com"},
    {"turkSubmitTo": "https://www.mturk.com.evil.example"},
    {"turkSubmitTo": "https://evil.example/https://www.mturk.com"},
    {"turkSubmitTo": "https://www.mturk.com/other"},
    {"turkSubmitTo": "javascript:alert(1)"},
    {"assignmentId": ""},
    {"assignmentId": "<script>"},
    {"hitId": "a b"},
    {"workerId": ""},
], ids=str)  # fmt: skip
def test_a_link_that_is_not_mechanical_turks_is_refused(
    visit: Visit, changes: dict[str, str]
) -> None:
    client, database = visit()
    for ask in (client.get, client.post):
        answer = ask("/start", params=MTURK | changes)
        assert answer.status_code == 400
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert count(database) == 0


def test_the_sandbox_is_an_address_to_send_to(visit: Visit) -> None:
    client, database = visit()
    begin(client, MTURK | {"turkSubmitTo": "https://workersandbox.mturk.com/"})
    assert the_hit(database)[2] == "https://workersandbox.mturk.com"


def test_studies_that_do_not_name_mechanical_turk_are_not_framed(visit: Visit) -> None:
    client, database = visit(mode="prolific", completion_code="C1")
    assert client.get("/start", params=MTURK).status_code == 404
    arrived = client.get("/start", params=PROLIFIC)
    assert (arrived.status_code, COOKIE in client.cookies) == (303, True)
    for path in ("/", "/question", "/start", "/opening"):
        policy = client.get(path).headers["content-security-policy"]
        assert "frame-ancestors 'self'; base-uri 'self'; form-action 'self'" in policy
    assert count(database) == 1


@pytest.mark.parametrize(("status", "title"), [
    ("open", "places_taken_title"), ("closed", "places_taken_title"), ("paused", "paused_title"),
])  # fmt: skip
def test_who_comes_too_late_returns_the_hit(visit: Visit, status: str, title: str) -> None:
    client, database = visit(completion_code="C0DE")
    begin(client, MTURK | {"workerId": "first", "assignmentId": "of-first"})
    set_status(database, status)
    for ask in (client.get, client.post):
        late = ask("/start", params=MTURK)
        assert late.status_code == 410
        assert ENTRY[title] in late.text
        assert ENTRY["return_hit"] in late.text
        assert "C0DE" not in late.text
        assert FRAMED in late.headers["content-security-policy"]
    assert count(database) == 1


# --------------------------------------------------------------------------------------- tickets


def test_the_ticket_takes_the_place_of_the_cookie(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    assert client.get("/question").status_code == 401
    client.cookies.set(COOKIE, "other")  # of another participation in this browser
    answer = client.get(f"{root}question")
    assert (answer.status_code, answer.json()["step"]) == (200, "consent")
    assert answer.headers["referrer-policy"] == "no-referrer"
    policy = answer.headers["content-security-policy"]
    assert f"frame-ancestors {SITES}; base-uri 'self'; form-action 'self' {SITES}" in policy
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://worker.mturk.com"}):
        sent = client.post(f"{root}consent", json={"agrees": True}, headers=headers)
        assert sent.status_code == 403
    assert the_participant(database).consented_at is None


def test_a_ticket_opens_nothing_but_the_participants_page(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    ticket = root.split("/")[2]
    text, signature = ticket.split(".")
    forged = signature[:-1] + ("0" if signature[-1] != "0" else "1")
    with database.reading() as session:
        signed_cookie = Services.of(database).signer.sign(
            "participant", session.scalars(select(Participant.token_hash)).one()
        )
    wrong = [
        *(f"{root}{path}" for path in ("", "owner/", "start", "framed/x", "healthz", "../owner/")),
        *(f"/framed/{each}/question" for each in (f"{text}.{forged}", f"x.{signature}")),
        f"/framed/{signed_cookie}/question",
        "/framed/",
    ]
    for address in wrong:
        answer = client.get(address)
        assert answer.status_code == 404, address
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert client.post(f"{root}enrol", data={"study": 1}).status_code == 405
    with database.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).one())
    assert client.get(f"{root}question").status_code == 401


# ------------------------------------------------------------------------------------------ HITs


def test_the_last_page_sends_the_hit(visit: Visit) -> None:
    client, _ = visit(completion_code="C0DE")
    done = answer_all(client, begin(client))
    assert done["step"] == "done"
    assert done["hit"] == {
        "action": "https://www.mturk.com/mturk/externalSubmit",
        "fields": {"assignmentId": "3XYZ", "outcome": "done", "completionCode": "C0DE"},
    }
    assert not {"code", "url"} & done.keys()


def test_no_code_is_needed(visit: Visit) -> None:
    client, _ = visit()
    done = answer_all(client, begin(client))
    assert done["hit"]["fields"] == {"assignmentId": "3XYZ", "outcome": "done"}


def test_a_worker_goes_on_with_another_hit_until_the_end(visit: Visit) -> None:
    client, database = visit()
    first, second = MTURK, MTURK | {"assignmentId": "4ABC", "hitId": "41J5"}
    root = begin(client, first)
    client.post(f"{root}consent", json={"agrees": True})
    assert client.get("/start", params=first).status_code == 303
    asked = client.get("/start", params=second)
    assert (asked.status_code, ENTRY["hit_accepted"] in asked.text) == (200, True)
    assert 'localStorage.getItem("hsfiq.ticket")' in asked.text
    again = client.post("/start", params=second | {"ticket": root.split("/")[2]})
    assert (again.status_code, f"/{again.headers['location']}") == (303, f"{root}study/")
    assert the_hit(database)[:2] == ("4ABC", "41J5")
    assert answer_all(client, root)["hit"]["fields"]["assignmentId"] == "4ABC"
    assert client.get("/start", params=second).status_code == 303
    refused = client.post("/start", params=first)
    assert refused.status_code == 409
    assert ENTRY["hit_refused_title"] in refused.text
    assert ENTRY["return_hit"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]
    assert the_hit(database)[0] == "4ABC"
    assert count(database) == 1


def test_a_workers_id_alone_opens_no_participation(visit: Visit) -> None:
    """Others may know it, but neither the assignment nor the ticket of the worker's page."""
    client, database = visit(participants=2)
    root = begin(client)
    client.post(f"{root}consent", json={"agrees": True})
    other = begin(client, MTURK | {"workerId": "another", "assignmentId": "of-another"})
    guessed = MTURK | {"assignmentId": "invented", "hitId": "invented"}
    tickets = ["", "x", other.split("/")[2], f"{root.split('/')[2]}x"]
    for link in (guessed | {"ticket": ticket} for ticket in tickets):
        asked = client.get("/start", params=link)
        assert (asked.status_code, "location" in asked.headers) == (200, False)
        refused = client.post("/start", params=link)
        assert (refused.status_code, "location" in refused.headers) == (409, False)
        assert ENTRY["hit_changed_title"] in refused.text
        assert FRAMED in refused.headers["content-security-policy"]
    with database.reading() as session:
        worked = session.scalars(select(WorkedHit.assignment_id)).all()
    assert sorted(worked) == ["3XYZ", "of-another"]


def test_a_worker_who_has_not_agreed_yet_may_change_the_hit(visit: Visit) -> None:
    client, database = visit()
    begin(client)
    begin(client, MTURK | {"assignmentId": "4ABC"})
    assert the_hit(database)[0] == "4ABC"


def test_nobody_takes_up_the_hit_of_somebody_else(visit: Visit) -> None:
    client, database = visit(participants=2)
    begin(client)
    refused = client.post("/start", params=MTURK | {"workerId": "another"})
    assert (refused.status_code, count(database), forms_taken(database)) == (409, 1, 1)


def test_who_declines_returns_the_hit_and_frees_the_place(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    declined = client.post(f"{root}consent", json={"agrees": False}).json()
    assert (declined["kind"], declined["hit"]) == ("declined", None)
    other = MTURK | {"workerId": "another", "assignmentId": "of-another"}
    assert answer_all(client, begin(client, other))["step"] == "done"
    assert client.post("/start", params=MTURK | {"assignmentId": "5DEF"}).status_code == 409
    assert count(database) == 2


def test_a_code_for_who_declines_sends_the_hit(visit: Visit) -> None:
    client, _ = visit(declined_code="N0")
    declined = client.post(f"{begin(client)}consent", json={"agrees": False}).json()
    fields = {"assignmentId": "3XYZ", "outcome": "declined", "completionCode": "N0"}
    assert declined["hit"]["fields"] == fields


def test_workers_from_before_hits_were_kept_see_the_code(visit: Visit) -> None:
    client, database = visit(completion_code="C0DE")
    root = begin(client)
    with database.writing() as session:
        session.delete(session.scalars(select(WorkedHit)).one())
    done = answer_all(client, root)
    assert (done["code"], "hit" in done) == ("C0DE", False)


def test_a_forgotten_worker_may_come_again(visit: Visit) -> None:
    client, database = visit(participants=0)
    begin(client)
    with database.writing() as session:
        owner.forget(session, session.scalars(select(Participant)).one())
        assert session.scalars(select(WorkedHit)).all() == []
    begin(client)
    assert count(database) == 2


def test_the_study_in_the_link_is_chosen(visit: Visit) -> None:
    client, database = visit()
    with database.reading() as session:
        name = session.scalars(select(Study.name)).one()
    assert client.get("/start", params=MTURK | {"study": "other"}).status_code == 404
    begin(client, MTURK | {"study": name})
    assert count(database) == 1


def test_a_limit_by_address_is_explained_in_the_frame(visit: Visit) -> None:
    client, database = visit(participants=0, enrolments_per_address=1)
    begin(client)
    refused = client.post("/start", params=MTURK | {"workerId": "b", "assignmentId": "of-b"})
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert ENTRY["too_many_title"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]
    assert count(database) == 1


def test_who_is_not_on_the_list_is_told_in_the_frame(visit: Visit) -> None:
    client, database = visit()
    with database.writing() as session:
        allow_people(session, session.scalars(select(Study)).one(), ["other"])
    refused = client.post("/start", params=MTURK)
    assert (refused.status_code, count(database)) == (403, 0)
    assert ENTRY["not_invited_title"] in refused.text
    assert FRAMED in refused.headers["content-security-policy"]


def test_a_worker_withdraws_in_the_frame(visit: Visit) -> None:
    client, database = visit()
    root = begin(client)
    read = client.get(f"{root}withdrawal").json()
    assert read["payment"] == "mturk"
    confirmed = client.post(f"{root}withdrawal", json={"assignment": read["assignment"]})
    assert confirmed.status_code == 200
    assert client.get(f"{root}question").status_code == 401
    with database.reading() as session:
        assert session.scalars(select(WorkedHit)).all() == []
