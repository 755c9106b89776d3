"""The page Recruiting: what helpers and owners do on it, and what it does not show."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from hsfiq.actors import Role
from hsfiq.audit import Selection, entries
from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Message, Participant, Study
from tests.annotate.owner.studies_in_progress import add_account, log_in
from tests.annotate.served_studies import all_of, browser_of, count, the_one

PATH = "/owner/study/1/recruiting"


@pytest.fixture
def helper(owner: TestClient, watched: Database) -> TestClient:
    return logged_in(owner, watched, Role.HELPER)


def logged_in(owner: TestClient, database: Database, role: Role) -> TestClient:
    add_account(database, role, role)
    browser = browser_of(owner.app)  # type: ignore[arg-type]
    assert log_in(browser, name=role).status_code == 303
    return browser


def act(client: TestClient, name: Any, **given: Any) -> tuple[int, dict[str, Any]]:
    reply = client.post(PATH, json={"act": name, **given})
    return reply.status_code, reply.json()


def statuses(database: Database) -> dict[str, str]:
    return {person.name: person.status for person in all_of(database, select(Participant))}


def test_helpers_see_no_answers(helper: TestClient) -> None:
    home, page = helper.get("/owner/").text, helper.get(PATH).text
    assert "study/1/recruiting" in home
    for shown in ("p1", "p4", "15 of 24 answers"):
        assert shown in page, shown
    for hidden in ("failed", "median", "?person=", "preview/1", "Messages", "accounts", "history",
                   "/watch", "/results", "/setup", 'src="image/'):  # fmt: skip
        assert hidden not in home + page, hidden
    for other in ("watch", "results", "history", "people.csv"):
        assert helper.get(f"/owner/study/1/{other}").status_code == 403


def test_links_are_shown_once(helper: TestClient, watched: Database) -> None:
    before = count(watched)
    status, reply = act(helper, "links", count="2")
    links = re.findall(r"p\d+,http://testserver(/start/\S+)", reply["page"])
    assert (status, len(links), count(watched)) == (200, 2, before + 2)
    assert browser_of(helper.app).get(links[0]).status_code in (200, 303)  # type: ignore[arg-type]
    assert "start/" not in helper.get(PATH).text
    with watched.reading() as session:
        (entry,) = [each for each in entries(session, Selection()) if "invite" in each.action]
    assert (entry.actor, entry.about) == ("helper", "2 invitations")


@pytest.mark.parametrize("number", ["", "0", "501", "-1", "x", "9" * 30, None, [], 1e400])
def test_wrong_numbers_of_links_make_none(
    helper: TestClient, watched: Database, number: object
) -> None:
    before = count(watched)
    body = f'{{"act": "links", "count": {"1e400" if number == 1e400 else repr(number)}}}'
    body = body.replace("'", '"').replace("None", "null")
    reply = helper.post(PATH, content=body)
    assert (reply.status_code, count(watched)) == (422, before), reply.text


def test_pausing_and_resuming_can_be_undone(helper: TestClient, watched: Database) -> None:
    for name, given, expected in (
        ("person", {"person": "p1", "to": "pause"}, ("paused", "open")),
        ("person", {"person": "p1", "to": "resume"}, ("active", "open")),
        ("status", {"to": "pause"}, ("active", "paused")),
        ("status", {"to": "open"}, ("active", "open")),
    ):
        status, reply = act(helper, name, **given)
        assert status == 200, reply
        now = statuses(watched)["p1"], the_one(watched, select(Study.status))
        assert now == expected
    status, reply = act(helper, "person", person="p2", to="pause")
    assert act(helper, reply["undo"].pop("act"), **reply["undo"])[0] == 200
    assert statuses(watched)["p2"] == "active"


def test_nothing_else_is_possible(helper: TestClient, watched: Database) -> None:
    before = statuses(watched)
    for given in (
        {"person": "p1", "to": "exclude"}, {"person": "p1", "to": "reassign"},
        {"person": "p4", "to": "resume"}, {"person": "p4", "to": "pause"},
        {"person": "p1", "to": "resume"}, {"person": "p9", "to": "pause"},
        {"person": "<b>", "to": "pause"}, {"person": ["p1"], "to": "pause"},
        {"person": "p1", "to": None}, {"to": "pause"}, {"person": "\0", "to": "pause"},
    ):  # fmt: skip
        status, reply = act(helper, "person", **given)
        assert (status, bool(reply["error"])) in ((422, True), (409, True), (404, True)), given
    for to in ("close", "open", "", None, ["pause"]):
        assert act(helper, "status", to=to)[0] in (409, 422)
    for name in ("unblind", "decide", None, ["links"], "send "):
        assert act(helper, name)[0] == 422
    assert act(helper, "send", text="Hello", to="")[0] == 403
    assert (statuses(watched), the_one(watched, select(Study.status))) == (before, "open")
    with watched.writing() as session:
        session.scalars(select(Study)).one().status = "closed"
    assert act(helper, "status", to="open")[0] == 409
    assert the_one(watched, select(Study.status)) == "closed"


def test_analysts_and_others_change_nothing(owner: TestClient, watched: Database) -> None:
    analyst = logged_in(owner, watched, Role.ANALYST)
    assert analyst.get(PATH).status_code == 403
    assert analyst.post(PATH, json={"act": "status", "to": "pause"}).status_code == 403
    stranger = browser_of(owner.app)  # type: ignore[arg-type]
    assert stranger.post(PATH, json={"act": "status", "to": "pause"}).status_code == 401
    foreign = {"Origin": "https://evil.example"}
    reply = owner.post(PATH, json={"act": "status", "to": "pause"}, headers=foreign)
    assert (reply.status_code, the_one(watched, select(Study.status))) == (403, "open")


def test_people_are_found_by_name_and_platform_id(
    owner: TestClient, watched: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched.writing() as session:
        person = session.scalars(select(Participant).where(Participant.name == "p1")).one()
        person.external_id = "5f8e0c<b>"
    everybody = ["p4", "p3", "p2", "p1"]
    for text, found in (("p3", ["p3"]), (" 5F8e ", ["p1"]), ("p9", []), ("%", []),
                        ("", everybody), ("\0", everybody)):  # fmt: skip
        page = owner.get(PATH, params={"q": text}).text
        assert re.findall(r'class="name">(p\d)<', page) == found, text
    assert "5f8e0c&lt;b&gt;" in owner.get(PATH).text
    monkeypatch.setattr(participants, "PER_PAGE", 3)
    for asked, names in (("2", ["p1"]), ("9", ["p1"]), ("x", ["p4", "p3", "p2"])):
        page = owner.get(PATH, params={"page": asked}).text
        assert re.findall(r'class="name">(p\d)<', page) == names


def test_messages_are_sent_and_counted(owner: TestClient, watched: Database) -> None:
    status, reply = act(owner, "send", text="To <b>all</b>", to="")
    assert (status, "To &lt;b&gt;all&lt;/b&gt;" in reply["page"]) == (200, True)
    assert re.search(r"everybody</b>.*seen by 0 of [1-9]", reply["page"])
    assert act(owner, "send", text="Only you", to="p2")[0] == 200
    for given in ({"text": "Hello", "to": "nobody"}, {"text": " ", "to": ""}, {"text": ["x"]}):
        assert act(owner, "send", **given)[0] == 422
    assert all_of(watched, select(Message.text)) == ["To <b>all</b>", "Only you"]


@pytest.mark.parametrize("number", ["999", "x", "-1", "9" * 30])
def test_a_study_that_is_none_is_not_found(owner: TestClient, number: str) -> None:
    assert owner.get(f"/owner/study/{number}/recruiting").status_code == 404
