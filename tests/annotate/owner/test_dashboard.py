"""The dashboard over HTTP: what it shows, what its buttons change, and who may use it."""

from __future__ import annotations

import inspect
import io
import json
import re
import zipfile
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import gradio as gr
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from starlette.requests import Request

from hsfiq.actors import OWNER
from hsfiq.annotate.owner import study_pages
from hsfiq.annotate.owner.actions import PERSON, STUDY, from_json, perform, to_json
from hsfiq.annotate.owner.login import COOKIE, NotLoggedIn
from hsfiq.collect import participants
from hsfiq.collect.owner import OwnerAction, change_quotas
from hsfiq.collect.progress import answers_of
from hsfiq.collect.question_history import question_history
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Response, StatusChange, Study
from hsfiq.errors import Busy, Refused
from hsfiq.releases.export import Recorder, export_releases
from hsfiq.study.filters import Filters
from tests.annotate.owner.studies_in_progress import Events
from tests.annotate.served_studies import all_of, gradio_page, the_one

NAME = "telltale-study"


def statuses(database: Database) -> dict[str, str]:
    return {person.name: person.status for person in all_of(database, select(Participant))}


def opened(owner: TestClient) -> list[Any]:
    """What the page shows when it is opened."""
    return list(Events(owner).load().json()["data"])


def confirmed(events: Events, button: str, *data: str) -> tuple[list[Any], list[Any]]:
    """Press a button, and Yes: what the page shows after each."""
    asked = events.call(button, "click", NAME, *data)
    return asked, events.call("yes", "click", asked[4], NAME)


def test_the_dashboard_shows_the_study(owner: TestClient) -> None:
    """The wrong sum of p1 does not count as a failed check; nobody has answered another one."""
    chooser, refreshed_at, tiles, plots, latest, about_study, *rest = opened(owner)
    people = rest[len(STUDY)]
    assert chooser["value"] == NAME
    assert "UTC" in refreshed_at
    for words in ("15<small> of 24", "62.5 %", "9<small> to reassign", "lease over: p3",
                  "0<small> of 0", "p3.form_1.2", "2 finished, 1 active, 1 excluded",
                  "6<small> of 14 answers", "2 without every image, 6 unknown",
                  "Checks failed"):  # fmt: skip
        assert words in tiles, words
    assert "64.3 %<small> of 14" in plots
    assert "Arithmetic (attempts): 2 passed, 1 failed" in plots
    assert people.count("<tr>") == 5
    assert "1 of 2" not in people
    assert "p1.form_2.2" in latest
    assert 'href="../export/1/hs"' in about_study


def test_fast_answers_are_a_reason_to_look_at_a_participant(
    owner: TestClient, watched: Database
) -> None:
    reason = "6 of 6 answers in less than 2 s"
    assert reason not in dashboard_of(owner)[1]
    p2 = Participant.name == "p2"
    own = select(Question.id).join(Form).join(Participant).where(p2)
    with watched.writing() as session:
        of_p2 = update(Response).where(Response.question_id.in_(own))
        session.execute(of_p2.values(active_seconds=0.0))
    tiles, people = dashboard_of(owner)
    assert "to look at: p2" in tiles
    assert people.count(reason) == 1
    _, flagged = dashboard_of(owner, *("", True))
    assert "p2" in flagged
    assert flagged.count("<tr>") == 2
    page = owner.get("/owner/participant", params={"study": NAME, "name": "p2"})
    assert reason in page.text
    with watched.writing() as session:
        session.execute(update(Participant).where(p2).values(status="excluded"))
    assert "to look at" not in dashboard_of(owner)[0]


def test_participants_are_found_by_name_and_platform_id_and_have_pages(
    owner: TestClient, watched: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    p1 = update(Participant).where(Participant.name == "p1")
    with watched.writing() as session:
        session.execute(p1.values(external_id="5f8e0c"))
    everybody = ["p4", "p3", "p2", "p1"]
    for looked_for, found in (
        ("p3", ["p3"]), ("P", everybody), (" 5F8e ", ["p1"]), ("p9", []), ("%", []), ("_", []),
        ("\0", everybody), (7, []),
    ):  # fmt: skip
        _, people = dashboard_of(owner, looked_for)
        assert re.findall(r'data-participant="(p\d)"', people) == found, looked_for
        assert ("Nobody is found" in people) == (not found)
    monkeypatch.setattr(participants, "PER_PAGE", 3)
    for asked, number in ((1, 1), (2, 2), (9, 2), (0, 1), (-1, 1)):
        people, page = Events(owner).call("find", "submit", NAME, *("", False, asked))
        names = everybody[:3] if number == 1 else ["p1"]
        assert re.findall(r'data-participant="(p\d)"', people) == names
        assert (page["value"], page["label"], page["visible"]) == (number, "Page, of 2", True)
    people, page = Events(owner).call("find", "submit", NAME, *("p2", False, 2))
    assert page["visible"] is False


def dashboard_of(owner: TestClient, *asked: object) -> tuple[str, str]:
    """The headline numbers and the table of participants, of those who are asked for."""
    outputs = Events(owner).call("refresh", "click", NAME, *asked)
    return outputs[1], outputs[5 + len(STUDY)]


def test_the_button_that_would_change_nothing_cannot_be_pressed(
    owner: TestClient, watched: Database
) -> None:
    for status, pressable in (("open", [False, True, True]), ("paused", [True, False, True]),
                              ("closed", [True, True, False])):  # fmt: skip
        with watched.writing() as session:
            list_studies(session)[0].status = status
        buttons = Events(owner).call("refresh", "click", NAME)[5 : 5 + len(STUDY)]
        assert [button["interactive"] for button in buttons] == pressable


def test_the_dashboard_shows_quotas_and_the_last_release(
    owner: TestClient, watched: Database, tmp_path: Path
) -> None:
    with watched.writing() as session:
        change_quotas(session, list_studies(session)[0], {"shirt": 2})
    with watched.reading() as session:
        (study,) = list_studies(session)
        recorder, folder = Recorder(watched, OWNER), tmp_path / "release"
        export_releases(session, study, ["hp"], Filters(), folder=folder, in_place=recorder)
    about_study = opened(owner)[5]
    assert "Participants by category: shirt 2 of 2 (reached)." in about_study
    assert f"Last release: {NAME}-hp 1.0.0 of 20" in about_study
    assert "14 answers; since then 0 new answers and 0 changes." in about_study


def test_without_a_login_no_event_returns_or_changes_anything(
    owner: TestClient, watched: Database
) -> None:
    events = Events(owner)
    waiting = events.call("person-pause", "click", NAME, "p1", "")[4]
    cookie = owner.cookies[COOKIE]
    owner.cookies.clear()
    for dependency in events.config["dependencies"]:
        body = {"data": [waiting, NAME], "fn_index": dependency["id"], "session_hash": "s"}
        answer = owner.post("/owner/board/gradio_api/run/predict", json=body)
        assert answer.status_code == 401
    owner.cookies[COOKIE] = cookie
    cross_site_headers = {"Sec-Fetch-Site": "same-site"}
    index = events.index("yes", "click")
    body = {"data": [waiting, NAME, "", False, 1], "fn_index": index, "session_hash": "s"}
    path = "/owner/board/gradio_api/run/predict"
    assert owner.post(path, json=body, headers=cross_site_headers).status_code == 403
    assert statuses(watched)["p1"] == "active"
    assert owner.post(path, json=body).status_code == 200
    assert statuses(watched)["p1"] == "paused"


def test_each_handler_checks_the_login_itself(owner: TestClient, watched: Database) -> None:
    """The middleware is not the only check: Gradio's events may be reachable in other ways."""
    app: Any = owner.app
    (mount,) = [route for route in app.routes if getattr(route, "path", "") == "/owner/board"]
    functions = gradio_page(mount).app.get_blocks().fns.values()
    assert len(functions) > 10
    waiting = to_json(OwnerAction(NAME, "p1", "pause", "active"))
    sample_values = {
        "request": gr.Request(Request({"type": "http", "headers": []}), session_hash="s"),
        "event": SimpleNamespace(name="p1"),
        "action": waiting,
        "participant": "p1",
        "question": "p1.form_1.0",
        "reason": "",
        "study": NAME,
        "looked_for": "",
        "only_flagged": False,
        "page": 1,
    }
    for function in functions:
        parameters = inspect.signature(function.fn).parameters
        with pytest.raises(NotLoggedIn):
            function.fn(**{name: sample_values[name] for name in parameters})
    assert statuses(watched)["p1"] == "active"


@pytest.mark.parametrize(("action", "person", "status"), [
    ("pause", "p1", "paused"),
    ("exclude", "p1", "excluded"),
    ("return", "p3", "returned"),
    ("resume", "p4", "active"),
])  # fmt: skip
def test_an_action_is_confirmed_and_then_performed(
    owner: TestClient, watched: Database, action: str, person: str, status: str
) -> None:
    events, before = Events(owner), statuses(watched)
    asked = events.call(f"person-{action}", "click", NAME, f" {person} ", " they\nasked ")
    assert PERSON[action].means in asked[2]
    assert "Reason: they\nasked" in asked[2]
    assert asked[1]["visible"] is True
    assert asked[3]["value"] == f"Yes, {PERSON[action].button.lower()} {person}"
    assert statuses(watched) == before
    outputs = events.call("yes", "click", asked[4], NAME)
    assert f"{person}: {before[person]}" in outputs[0]
    assert outputs[1]["visible"] is False
    assert statuses(watched) == before | {person: status}
    assert all_of(watched, select(StatusChange.reason)) == ["they\nasked"]


def test_reassigning_ends_the_lease(owner: TestClient, watched: Database) -> None:
    _, outputs = confirmed(Events(owner), "person-reassign", "p1", "")
    assert "the next participant gets the questions" in outputs[0].lower()
    assert "given back" in outputs[5 + 5 + len(STUDY)]
    seen_at = select(Participant.seen_at).where(Participant.name == "p1")
    assert all_of(watched, seen_at) == [None]


def test_the_study_is_paused_closed_and_opened_unless_it_is_finished(
    owner: TestClient, watched: Database
) -> None:
    events, status = Events(owner), select(Study.status)
    for action, changed in (("pause", "paused"), ("close", "closed")):
        assert STUDY[action].means in confirmed(events, f"study-{action}")[0][2]
        assert the_one(watched, status) == changed
        confirmed(events, "study-open")
        assert the_one(watched, status) == "open"
    with watched.writing() as session:
        study = list_studies(session)[0]
        study.origin, study.status = "simulated", "closed"
    asked = events.call("study-open", "click", NAME)
    assert ("cannot take more" in asked[0], asked[4]) == (True, "")


def test_exactly_the_confirmed_action_is_performed(owner: TestClient, watched: Database) -> None:
    events = Events(owner)
    asked = events.call("person-exclude", "click", NAME, "p1", "")
    with watched.writing() as session:
        session.scalars(select(Participant).where(Participant.name == "p1")).one().status = "paused"
    outputs = events.call("yes", "click", asked[4], NAME)
    assert "P1 is now paused, no longer active" in outputs[0]
    assert statuses(watched)["p1"] == "paused"


def test_an_invalid_action_is_refused(watched: Database) -> None:
    action = {"study": NAME, "participant": "p1", "name": "pause", "status_seen": "active"}
    changes: list[dict[str, object]] = [
        {"name": "forget"}, {"participant": None, "name": "exclude", "status_seen": "open"},
        {"participant": ["p1"]}, {"name": ["pause"]}, {"study": "other"}, {"participant": "p9"},
    ]  # fmt: skip
    payloads: list[Any] = ["", "x", "[]", "null", "{}", "[" * 5000, '{"study": 1}', None, 7]
    payloads += [{"study": "x"}, *(json.dumps(action | change) for change in changes)]
    for payload in payloads:
        with pytest.raises(Refused), watched.writing() as session:
            perform(session, from_json(payload), OWNER)
    assert statuses(watched)["p1"] == "active"


def test_unknown_participant_and_an_action_without_effect_are_reported(owner: TestClient) -> None:
    events = Events(owner)
    for action, person, message in (
        ("pause", "", "has no participant"),
        ("pause", "p9", "has no participant"),
        ("pause", "<b>", "&lt;b&gt;"),
        ("exclude", "p4", "P4 is already excluded"),
    ):
        asked = events.call(f"person-{action}", "click", NAME, person, "")
        assert message in asked[0], person
        assert asked[1]["visible"] is False


def test_no_study_and_an_unknown_one(owner: TestClient) -> None:
    events = Events(owner)
    for name in (None, "", "nothing", 7, ["x"]):
        outputs = events.call("refresh", "click", name)
        assert "There is no study yet" in outputs[1]
        (history,) = events.call("question", "submit", name, "p1.form_1.0")
        assert "Choose a study first" in history


def test_the_history_through_the_event(owner: TestClient) -> None:
    events = Events(owner)
    (history,) = events.call("question", "submit", NAME, "p2.form_1.0")
    assert "2, counts" in history
    assert "telltale-" in history
    assert "<td>unknown</td>" in history
    (unknown,) = events.call("question", "submit", NAME, "<img src=x>")
    assert "&lt;img" in unknown
    event = {"event_data": {"name": "p1.form_1.0"}}
    question, history = events.call("owner.latest", "select", NAME, **event)
    assert question == "p1.form_1.0"
    assert '<h3 class="id">p1.form_1.0</h3>' in history
    assert "<td>11 of 11 painted</td>" in history
    assert events.call("owner.people", "select", event_data={"name": "p3"}) == ["p3"]


# ----------------------------------------------------------------------------------------- export


@pytest.mark.parametrize("kind", ["hs", "hp"])
def test_the_live_export_is_the_current_release(owner: TestClient, kind: str) -> None:
    first, second = (owner.get(f"/owner/export/1/{kind}") for _ in range(2))
    assert first.status_code == 200
    assert first.headers["content-type"] == "application/zip"
    assert f'filename="{NAME}-{kind}-' in first.headers["content-disposition"]
    assert first.content == second.content
    archive = zipfile.ZipFile(io.BytesIO(first.content))
    assert archive.testzip() is None
    folder = f"{NAME}-{kind}"
    manifest = json.loads(archive.read(f"{folder}/manifest.json"))
    assert manifest["version"] == "0.0.0"
    assert manifest["counts"]["questions"] == 14  # of 15 answered, one was skipped
    assert {name.partition("/")[2] for name in archive.namelist()} >= set(manifest["files"])


def test_an_export_needs_a_study_and_a_kind(owner: TestClient) -> None:
    for path in ("/owner/export/9/hs", f"/owner/export/{10**30}/hs"):
        assert owner.get(path).status_code == 404
    assert owner.get("/owner/export/1/xx").status_code == 404


def page(client: TestClient, kind: str, name: str, study: str = NAME) -> tuple[int, str]:
    response = client.get(f"/owner/{kind}?{urlencode({'study': study, 'name': name})}")
    return response.status_code, response.text


def test_a_participants_page_shows_every_answer_with_its_images(owner: TestClient) -> None:
    status, text = page(owner, "participant", "p2")
    assert status == 200
    assert "6 of 6 questions" in text
    questions = re.findall(r"<h2><a [^>]*>(p2\.form_\d\.\d)</a></h2>", text)
    assert questions == [f"p2.form_{form}.{place}" for form in (1, 2) for place in range(3)]
    tokens = re.findall(r'<img src="image/([0-9a-f]{32})"', text)
    assert len(tokens) == 6 * (1 + 2 * 5)
    for path in (f"/owner/image/{tokens[0]}", f"/owner/image/{tokens[0]}/full"):
        image = owner.get(path)
        assert (image.status_code, image.headers["content-type"]) == (200, "image/webp")


def test_a_questions_page_shows_all_answers_about_its_sets(owner: TestClient) -> None:
    status, text = page(owner, "question", "p2.form_1.0")
    assert status == 200
    assert text.count("<figcaption>") == 2
    assert "All answers about these sets" in text
    assert "p2.form_1.0" in re.findall(r"<td>(p\d\.form_\d\.\d)</td>", text)


def test_pages_of_answers_are_of_what_exists(owner: TestClient) -> None:
    for kind, name, study in (
        ("participant", "nobody", NAME),
        ("participant", "p1", "no such study"),
        ("question", "p1.form_1.99", NAME),
        ("question", "<script>", NAME),
    ):
        status, text = page(owner, kind, name, study)
        assert (status, "<script>" in text) == (404, False)


def test_texts_of_participants_and_datasets_are_escaped(
    owner: TestClient, watched: Database
) -> None:
    """One of the study's query texts contains a script."""
    with watched.reading() as session:
        study = list_studies(session)[0]
        names = [answer.question_id for answer in answers_of(session, study)]
        histories = [question_history(session, study, name) for name in names]
    name = next(each.question_id for each in histories if each and "<script>" in each.text)
    _, text = page(owner, "question", name)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text


def test_dashboards_link_opens_a_preview(owner: TestClient) -> None:
    opened = owner.get("/owner/preview/1")
    assert opened.status_code == 303
    assert opened.headers["location"].startswith("../../preview/open/")
    assert owner.get(opened.headers["location"].removeprefix("../..")).status_code == 303
    assert owner.get("/preview/question").json()["step"] == "consent"
    assert owner.get("/owner/preview/999").status_code == 404


def test_the_texts_page_lists_the_versions_with_their_answers(owner: TestClient) -> None:
    response = owner.get("/owner/texts/1")
    assert response.status_code == 200
    text = unescape(response.text)
    assert "Version 1, the current one" in text
    assert "answers are older than the history" in text
    assert 'href="../board/"' in text
    assert owner.get("/owner/texts/999").status_code == 404


def test_messages_are_sent_and_counted_on_their_page(owner: TestClient) -> None:
    sent = owner.post("/owner/messages/1", data={"text": "To <b>all</b>"})
    assert (sent.status_code, sent.headers["location"]) == (303, "1")
    text = owner.get("/owner/messages/1").text
    assert "To &lt;b&gt;all&lt;/b&gt;" in text
    assert re.search(r"To all: seen by 0 of [1-9]", text)
    refused = owner.post("/owner/messages/1", data={"text": "Hello", "participant": "nobody"})
    assert (refused.status_code, "Not sent: study" in refused.text) == (422, True)
    headers = {"Origin": "https://evil.example"}
    assert owner.post("/owner/messages/1", data={"text": "x"}, headers=headers).status_code == 403


PATH = "/owner/texts/1/edit"
FIELD = re.compile(
    r'<input (?:type="hidden" )?name="([^"]+)" value="([^"]*)"'
    r'|<textarea name="([^"]+)"[^>]*>\n(.*?)</textarea>',
    re.DOTALL,
)


def content(page: str) -> dict[str, str]:
    """The values of a page's form."""
    return {
        name or area: unescape(value if name else text)
        for name, value, area, text in FIELD.findall(page)
    }


def send(client: TestClient, values: dict[str, str], action: str) -> tuple[int, str]:
    files = {name: (None, value) for name, value in {**values, "action": action}.items()}
    response = client.post(PATH, files=files)
    return response.status_code, unescape(response.text)


def title_of(database: Database) -> tuple[str, int | None]:
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        return study.title, study.text_version


def test_changes_are_shown_before_they_are_stored(owner: TestClient, watched: Database) -> None:
    form = content(owner.get(PATH).text)
    title, version = title_of(watched)
    assert (form["text:study.title"], form["version"]) == (title, "1")
    _, page = send(owner, form, "preview")
    assert ("No text or code differs." in page, 'value="store"' in page) == (True, False)
    changed = form | {"text:study.title": "Which <b>set</b>?", "text:study.guidelines": "# New"}
    status, page = send(owner, changed, "preview")
    assert (status, title_of(watched)) == (200, (title, version))
    assert f"study.title:\n  -{title}\n  +Which <b>set</b>?" in page
    again = content(owner.post(PATH, files={n: (None, v) for n, v in changed.items()}).text)
    assert send(owner, again, "edit")[1].count("# New") == 1
    assert send(owner, again, "store")[0] == 303
    assert title_of(watched) == ("Which <b>set</b>?", 2)
    history = unescape(owner.get("/owner/texts/1").text)
    assert "+Which <b>set</b>?" in history
    assert 'href="1/edit"' in history


def test_wrong_texts_and_conflicts_store_nothing(owner: TestClient, watched: Database) -> None:
    before = title_of(watched)
    form = content(owner.get(PATH).text)
    status, page = send(owner, form | {"text:study.set_names": "a\na"}, "store")
    assert status == 422
    assert "study.set_names: must be two different names" in page
    assert content(page)["text:study.set_names"] == "a\na"
    status, page = send(owner, form | {"version": "7", "text:study.title": "Mine"}, "store")
    assert (status, title_of(watched)) == (409, before)
    assert "the texts are now version 1" in page
    assert content(page)["text:study.title"] == "Mine"
    for version in ("9" * 5_000, "-1", "x", ""):
        assert send(owner, form | {"version": version}, "store")[0] == 409
    assert title_of(watched) == before


def test_a_locked_database_is_told_as_on_every_page(
    owner: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = content(owner.get(PATH).text) | {"text:study.title": "Mine"}

    def locked(*_: object) -> None:
        raise Busy("the database is busy; please try again")

    monkeypatch.setattr(study_pages, "perform_edit", locked)
    files = {name: (None, value) for name, value in {**form, "action": "store"}.items()}
    answer = owner.post(PATH, files=files)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_only_the_owners_own_page_reaches_the_form(owner: TestClient, watched: Database) -> None:
    files = {"action": (None, "store"), "text:study.title": (None, "Mine")}
    before = title_of(watched)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert owner.post(PATH, files=files, headers=headers).status_code == 403
    assert owner.get("/owner/texts/999/edit").status_code == 404
    assert owner.post("/owner/texts/999/edit", files=files).status_code == 404
    with watched.writing() as session:
        session.scalars(select(Study)).one().origin = "imported"
    assert "edit" not in owner.get("/owner/texts/1").text.split("</h1>")[1]
    assert owner.get(PATH).status_code == 404
    assert title_of(watched) == before
