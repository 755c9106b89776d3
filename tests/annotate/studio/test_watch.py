"""The pages Watch and History: figures, the table of people, a person, notes, and roles."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from playwright.sync_api import BrowserContext, Page
from sqlalchemy import func, select, update

from hsfiq.actors import OWNER, Role
from hsfiq.annotate.app import build_app
from hsfiq.annotate.studio import watch
from hsfiq.collect.owner import perform, prepare
from hsfiq.collect.participants import by_name
from hsfiq.db.engine import Database, open_database
from hsfiq.db.studio_tables import AnswerNote, ReviewedAnswer, Unblinding
from hsfiq.db.tables import AuditEntry, Participant, Study
from hsfiq.db.tables import Response as StoredResponse
from hsfiq.kinds import KINDS
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    REASON,
    add_account,
    log_in,
    set_owner,
)
from tests.annotate.served_studies import SYSTEMS, ReusedStudy, browser_of
from tests.hsfiq.releases.small_releases import small_study_of

PATH = "/owner/study/1/watch"
pytestmark = pytest.mark.usefixtures("watched")
Act = Callable[..., Response]


@pytest.fixture
def act(owner: TestClient) -> Act:
    def sent(name: str, **given: Any) -> Response:
        return owner.post(PATH, content=json.dumps({"act": name, **given}))

    return sent


def people_in(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a[^>]*>([^<]+)</a>', page)


def state_in(page: str, name: str) -> str:
    found = re.search(rf'>{name}</a></th><td><span class="pill[^>]*>([^<]+)<', page)
    assert found
    return found[1]


def audited(database: Database) -> list[tuple[str, str, str]]:
    with database.reading() as session:
        done = select(AuditEntry).where(AuditEntry.action != "login")
        rows = session.scalars(done.order_by(AuditEntry.id))
        return [(row.actor, row.action, row.about) for row in rows]


def count(database: Database, table: Any) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_it_shows_figures_and_people(owner: TestClient) -> None:
    page = owner.get(PATH).text
    assert people_in(page) == ["p4", "p2", "p1", "p3"]
    states = {name: state_in(page, name) for name in people_in(page)}
    assert states == {
        "p1": "to decide", "p2": "to decide", "p3": "stopped", "p4": "left out"
    }  # fmt: skip
    text = " ".join(re.sub("<[^>]+>", " ", page).split())
    assert "15 of 24" in text
    assert "People finished 2 of 4" in text
    assert "0 answering now, 1 stopped, 0 places free" in text
    assert "2 people have finished and wait for a decision" in text
    assert "p3 stopped after 3 answers, 3 hours ago" in text
    assert "1 answer was flagged or has a comment" in text
    assert not [system for system in SYSTEMS if system in page]


def test_people_are_searched_filtered_sorted_and_paged(
    owner: TestClient,
    watched: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with watched.writing() as session:
        session.execute(
            update(Participant).where(Participant.name == "p2").values(external_id="x%_Y")
        )

    def people(query: str) -> list[str]:
        return people_in(owner.get(f"{PATH}?{query}").text)

    assert people("q=x%25_y") == ["p2"]
    assert people("q=%25%25") == []
    assert people("show=stopped") == ["p3"]
    assert people("show=nothing") == people("")
    assert people("people=p1,p3") == ["p1", "p3"]
    assert people("sort=person") == ["p1", "p2", "p3", "p4"]
    assert people("sort=-time") == ["p2", "p3", "p1", "p4"]
    assert people("sort=time&show=to+decide") == ["p1", "p2"]
    assert people("sort=answers") == ["p4", "p3", "p2", "p1"]
    assert people("sort=__class__") == people("sort=-seen")
    monkeypatch.setattr(watch, "PER_PAGE", 3)
    assert people("sort=person&page=2") == ["p4"]
    assert people("sort=person&page=99") == ["p4"]
    page = owner.get(f"{PATH}?sort=person").text
    assert "1 to 3 of 4" in page
    assert "sort=person&amp;page=2" in page


@pytest.mark.parametrize("query", [
    "page=-1", "page=9999999", "page=%F0%9F%98%80", "q=%00", "q=" + "x" * 5000, "people=%00,,",
    "sort=%27", "show=%22%3E%3Cscript%3E", "comments=99", "done=1", "all=1", "answer=p1.form_1.0",
    "person=p1&answer=p2.form_1.0", "person=p1&answer=..%2F..", "people=" + ",".join("x" * 9000),
    "q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
])  # fmt: skip
def test_whatever_the_address_says_it_is_a_page(owner: TestClient, query: str) -> None:
    response = owner.get(f"{PATH}?{query}")
    assert response.status_code == 200
    assert "<script>" not in response.text


@pytest.mark.parametrize("address", [
    "study/2/watch", "study/0/watch", "study/-1/watch", "study/9999999999999/watch",
    "study/²/watch",
    "study/x/history", "study/2/people.csv", "study/1/secrets.csv", "study/1/..%2Fpeople.csv",
    "study/1/watch?person=nobody", "study/1/watch?person=%00",
])  # fmt: skip
def test_what_is_not_there_is_a_missing_page(owner: TestClient, address: str) -> None:
    response = owner.get(f"/owner/{address}")
    assert response.status_code in ((200, 404) if "%00" in address else (404,))


def test_a_person_is_shown_with_answers(owner: TestClient) -> None:
    page = owner.get(f"{PATH}?person=p2").text
    assert page.count('data-key="a-p2.') == 6
    assert "30 s per question" in page
    assert 'id="after" href="?person=p1#person"' in page
    assert 'id="before" href="?person=p4#person"' in page
    answer = owner.get(f"{PATH}?person=p2&answer=p2.form_1.0").text
    assert "prefers set 1" in answer
    assert "Answer 2" in answer
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ${1+1}" in answer
    assert not [system for system in SYSTEMS if system in page + answer]


# --------------------------------------------------------------------------- what the page changes


def test_a_study_is_paused_opened_and_closed_and_each_is_undone(
    owner: TestClient,
    act: Act,
    watched: Database,
) -> None:
    for to, after in (("pause", "paused"), ("open", "open"), ("close", "closed")):
        reply = act("status", to=to, shown=status(watched)).json()
        assert status(watched) == after
    owner.post(PATH, json=reply["undo"])
    assert status(watched) == "open"
    assert [action for _, action, _ in audited(watched)] == [
        "study.pause", "study.open", "study.close", "study.open"
    ]  # fmt: skip


def status(database: Database) -> str:
    with database.reading() as session:
        return session.get_one(Study, 1).status


def test_a_study_that_somebody_else_has_paused_is_not_paused_again(
    act: Act,
    watched: Database,
) -> None:
    assert act("status", to="pause", shown="open").status_code == 200
    refused = act("status", to="close", shown="open")
    assert refused.status_code == 409
    assert "no longer open" in refused.json()["error"]
    assert status(watched) == "paused"


def test_the_place_of_somebody_who_stopped_is_given_away(
    owner: TestClient,
    act: Act,
    watched: Database,
) -> None:
    assert act("give", person="p3").status_code == 200
    with watched.reading() as session:
        assert by_name(session, session.get_one(Study, 1), "p3").seen_at is None
    assert audited(watched) == [("owner", "participant.reassign", "p3")]
    assert act("give", person="nobody").status_code == 422


def test_notes_are_written_found_and_deleted(
    owner: TestClient,
    act: Act,
    watched: Database,
) -> None:
    text = "<b>=1+1</b> said the same"
    reply = act("note", about="p1", text=text)
    act("note", about="p2.form_1.0", text="unclear\N{DRESS}")
    assert "&lt;b&gt;=1+1&lt;/b&gt; said the same" in owner.get(f"{PATH}?person=p1").text
    assert "unclear\N{DRESS}" in owner.get(PATH).text
    assert people_in(owner.get(f"{PATH}?q=SAID+the").text) == ["p1"]
    assert owner.post(PATH, json=reply.json()["undo"]).status_code == 200
    assert people_in(owner.get(f"{PATH}?q=said+the").text) == []
    assert [entry[1:] for entry in audited(watched)] == [
        ("participant.note", "p1"), ("participant.note", "p2.form_1.0"),
        ("participant.note", "p1: deleted"),
    ]  # fmt: skip
    assert text not in str(audited(watched))


@pytest.mark.parametrize(("name", "given"), [
    ("note", {"about": "p1", "text": "  "}),
    ("note", {"about": "p1", "text": "x" * 2001}),
    ("note", {"about": "p1", "text": "\0"}),
    ("note", {"about": "p1", "text": "\ud800"}),
    ("note", {"about": "p1", "text": ["x"]}),
    ("note", {"about": "p9", "text": "x"}),
    ("note", {"about": "p1.form_1.99", "text": "x"}),
    ("note", {"about": "\ud800.form_1.0", "text": "x"}),
    ("note", {"about": None, "text": "x"}),
    ("unnote", {"note": 99}),
    ("unnote", {"note": "99999999999999999999"}),
    ("unnote", {"note": [1]}),
    ("review", {"answer": "p9.form_1.0"}),
    ("review", {"answer": "p1"}),
    ("review", {"answer": 7}),
    ("status", {"to": "delete", "shown": "open"}),
    ("status", {"to": "open", "shown": "draft"}),
    ("status", {"to": {}, "shown": "open"}),
    ("give", {}),
    ("nothing", {}),
])  # fmt: skip
def test_what_cannot_be_done_is_one_line_and_changes_nothing(
    act: Act,
    watched: Database,
    name: str,
    given: dict[str, Any],
) -> None:
    refused = act(name, **given)
    assert refused.status_code in (409, 422)
    assert refused.json()["error"]
    assert "\n" not in refused.json()["error"]
    assert audited(watched) == []
    assert count(watched, AnswerNote) == count(watched, ReviewedAnswer) == 0


def test_a_commented_answer_is_done_and_to_do_again(
    owner: TestClient,
    act: Act,
    watched: Database,
) -> None:
    flagged = 'data-answer="p2.form_1.0"'
    assert flagged in owner.get(PATH).text
    reply = act("review", answer="p2.form_1.0").json()
    assert flagged not in reply["page"]
    assert "1 of 1 done" in reply["page"]
    assert flagged in owner.get(f"{PATH}?done=1").text
    assert act("review", answer="p2.form_1.0").status_code == 200  # from another tab
    owner.post(PATH, json=reply["undo"])
    assert flagged in owner.get(PATH).text
    assert [about for *_, about in audited(watched)] == ["p2.form_1.0", "p2.form_1.0: again"]


def test_results_are_shown_by_an_owner_and_that_is_recorded(
    owner: TestClient,
    act: Act,
    watched: Database,
) -> None:
    assert "Results by system are hidden" in owner.get(PATH).text
    assert "Results by system are shown" in act("unblind").json()["page"]
    assert act("unblind").status_code == 200  # a repeated act
    assert audited(watched) == [("owner", "study.unblind", "")]
    assert count(watched, Unblinding) == 1


def test_results_of_a_closed_study_are_shown(act: Act) -> None:
    page = act("status", to="close", shown="open").json()["page"]
    assert "Results by system are shown" in page
    assert act("unblind").status_code == 200


def test_forgetting_a_person_deletes_the_notes_on_them(
    act: Act,
    owner: TestClient,
    watched: Database,
) -> None:
    act("note", about="p2", text="a private remark")
    act("note", about="p2.form_1.0", text="another remark")
    act("note", about="p1", text="a remark on p1")
    act("review", answer="p2.form_1.0")
    with watched.writing() as session:
        study = session.get_one(Study, 1)
        action = prepare(study, "forget", by_name(session, study, "p2"))
        perform(session, action, OWNER)
    assert (count(watched, AnswerNote), count(watched, ReviewedAnswer)) == (1, 0)
    assert "remark" not in owner.get(f"{PATH}?person=p2").text
    page = owner.get(f"{PATH}?person=p2").text
    assert state_in(page, "p2") in ("gave up", "without a place")


# ------------------------------------------------------------------------------------------- roles


def test_roles(owner: TestClient, reused_watched: ReusedStudy, watched: Database, act: Act) -> None:
    add_account(watched, "ann", Role.ANALYST)
    add_account(watched, "hal", Role.HELPER)
    ann, hal = browser_of(reused_watched.app), browser_of(reused_watched.app)
    log_in(ann, PASSWORD, "ann")
    log_in(hal, PASSWORD, "hal")
    act("note", about="p1", text="by the owner")
    page = ann.get(f"{PATH}?person=p1").text
    assert people_in(page) == ["p4", "p2", "p1", "p3"]
    for button in (
        'data-act="status"',
        'data-act="unblind"',
        'data-act="give"',
        'data-act="unnote"',
    ):
        assert button not in page
    ann_acts: list[tuple[int, dict[str, Any]]] = [
        (200, {"act": "note", "about": "p1", "text": "by ann"}),
        (200, {"act": "review", "answer": "p2.form_1.0"}),
        (422, {"act": "unnote", "note": 1}),
        (200, {"act": "unnote", "note": 2}),
        (403, {"act": "status", "to": "pause", "shown": "open"}),
        (403, {"act": "give", "person": "p3"}),
        (403, {"act": "unblind"}),
    ]
    for expected, given in ann_acts:
        assert ann.post(PATH, json=given).status_code == expected, given
        assert hal.post(PATH, json=given).status_code == 403
    assert ann.get("/owner/study/1/people.csv").status_code == 200
    assert ann.get("/owner/study/1/history").status_code == 403
    for path in ("watch", "history", "people.csv"):
        assert hal.get(f"/owner/study/1/{path}").status_code == 403
        refused = browser_of(reused_watched.app).get(
            f"/owner/study/1/{path}", follow_redirects=False
        )
        assert refused.status_code in (303, 401)
    other = owner.post(PATH, json={"act": "unblind"}, headers={"origin": "https://evil.example"})
    assert other.status_code == 403
    assert status(watched) == "open"
    assert count(watched, Unblinding) == 0


# --------------------------------------------------------------------------------- tables, history


def test_tables_are_files_that_spreadsheets_do_not_run(
    owner: TestClient,
    watched: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with watched.writing() as session:
        session.execute(
            update(Participant).where(Participant.name == "p1").values(external_id="=1+1")
        )

    def table(address: str) -> list[dict[str, str]]:
        response = owner.get(f"/owner/study/1/{address}")
        assert response.headers["content-disposition"].startswith("attachment")
        return list(csv.DictReader(StringIO(response.text)))

    people = table("people.csv?sort=person")
    monkeypatch.setattr(watch, "AT_ONCE", 3)
    assert table("people.csv?sort=person") == people
    assert [row["person"] for row in people] == ["p1", "p2", "p3", "p4"]
    assert people[0]["platform_id"] == "'=1+1"
    assert (people[2]["state"], people[2]["answered"], people[2]["questions"]) == (
        "stopped",
        "3",
        "6",
    )
    assert [row["person"] for row in table("people.csv?show=stopped")] == ["p3"]
    assert sum(int(row["answers"]) for row in table("hours.csv")) == 16
    (comment,) = table("comments.csv")
    assert (comment["answer"], comment["comment"], comment["done"]) == (
        "p2.form_1.0",
        REASON,
        "False",
    )
    abouts = [about for *_, about in audited(watched) if not about.startswith("hours")]
    assert abouts == [*["people: 4 rows"] * 2, "people: 1 row", "comments: 1 row"]


def test_the_history_has_pages(
    owner: TestClient, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        act("note", about="p1", text=str(number))
    monkeypatch.setattr(watch, "ENTRIES", 2)
    page = owner.get("/owner/study/1/history?page=2").text
    assert page.count("participant.note") == 2
    assert "3 to 4 of 5" in page
    assert "5 to 5 of 5" in owner.get("/owner/study/1/history?page=77").text


# ---------------------------------------------------------------------------- a study that is large


def test_what_was_read_of_a_large_study_is_shown_until_it_is_read_again(
    owner: TestClient,
    act: Act,
    watched: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "MOST_ANSWERS", 1)
    watch.KEPT.clear()
    assert "0 of 1 done" in owner.get(PATH).text
    with watched.writing() as session:
        session.execute(update(StoredResponse).values(reason="a comment"))
    assert "0 of 1 done" in owner.get(PATH).text
    (kept,) = watch.KEPT[watched].values()
    watch.read_again(kept, watched, 1)
    assert "0 of 16 done" in owner.get(PATH).text
    kept.due = float("inf")
    monkeypatch.setattr(watch, "read_known", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        watch.read_again(kept, watched, 1)
    assert kept.due == 0
    watch.KEPT.clear()


# ------------------------------------------------------------------------------ kinds of questions


@pytest.mark.parametrize("asked", KINDS)
def test_answers_of_every_kind_are_shown_in_words(tmp_path: Path, asked: str) -> None:
    database = open_database(f"sqlite:///{tmp_path}/kind.db")
    key = small_study_of(database, asked)
    set_owner(database)
    client = browser_of(build_app(database))
    log_in(client)
    address = f"/owner/study/{key}/watch?person=p1"
    page = client.get(f"{address}&all=1")
    assert page.status_code == 200
    ids = re.findall(r'data-key="a-([^"]+)"', page.text)
    assert ids or asked in ("search", "arena")  # which have turns
    for answer in ids:
        shown = client.get(f"{address}&answer={answer}")
        assert shown.status_code == 200
        assert "All answers of p1" in shown.text
    if asked in WORDS:
        assert WORDS[asked] in page.text
    database.close()


WORDS = {
    "pair": "prefers set",
    "query": "QUERY_TOO_BROAD",
    "arena": "both lists are bad",
    "search": "satisfaction 2",
}


# --------------------------------------------------------------------------------- in a browser


@pytest.fixture
def page(context: BrowserContext, reused_watched: ReusedStudy, watched: Database) -> Iterator[Page]:
    """Watch in a browser, in which no script may fail."""
    errors: list[str] = []
    with running(reused_watched.server()) as server:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{server.url}/owner/login")
        page.fill("#password", PASSWORD)
        page.click("button[name=enter]")
        page.goto(f"{server.url}{PATH}")
        yield page
        page.close()
    assert errors == []


@pytest.mark.browser
def test_keys_go_through_people_and_answers(page: Page, watched: Database) -> None:
    url = page.url
    page.goto(f"{url}?person=p2&sort=person")
    page.keyboard.press("j")
    page.wait_for_url("**person=p3**")
    page.keyboard.press("k")
    page.wait_for_url("**person=p2**")
    page.goto(f"{url}#flags")
    page.keyboard.press("j")
    page.keyboard.press("n")
    page.keyboard.type("jkd are letters here")
    assert "on" in str(page.locator(".comment").first.get_attribute("class")).split()
    page.locator(".comment form button").click()
    page.get_by_text("Noted.").wait_for()
    page.locator(".comment").focus()
    page.keyboard.press("d")
    page.get_by_text("Nothing to look at.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("jkd are letters here").wait_for()
    assert [action for _, action, _ in audited(watched)] == [
        "participant.note",
        "participant.review",
        "participant.review",
    ]


@pytest.mark.browser
def test_a_refreshed_page_keeps_what_is_typed_and_focused(page: Page, watched: Database) -> None:
    page.goto(f"{page.url}?sort=person")
    page.locator("tr a", has_text="p2").focus()
    page.fill("#find", "half a na")
    with watched.writing() as session:
        session.execute(update(Participant).where(Participant.name == "p3").values(status="paused"))
    page.locator("tr", has_text="p3").get_by_text("paused").wait_for(timeout=20_000)
    assert page.input_value("#find") == "half a na"
    assert page.evaluate("document.activeElement.id") == "find"


@pytest.mark.browser
@pytest.mark.parametrize(
    "address", ["?person=p2", "?person=p2&answer=p2.form_1.0&done=1", "", "?language=ko"]
)
def test_axe_finds_nothing(page: Page, address: str) -> None:
    page.goto(f"{page.url}{address}")
    assert list(faults(page)) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
