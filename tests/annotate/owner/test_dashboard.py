"""The dashboard over HTTP: what it shows, what its buttons change, and who may use it."""

from __future__ import annotations

import inspect
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from starlette.requests import Request

from hsfiq.actors import OWNER
from hsfiq.annotate.owner.actions import PERSON, STUDY, from_json, perform, to_json
from hsfiq.annotate.owner.login import COOKIE, NotLoggedIn
from hsfiq.collect import participants
from hsfiq.collect.owner import OwnerAction, change_quotas
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Form, Participant, Question, Response, StatusChange
from hsfiq.errors import Refused
from hsfiq.releases.export import Recorder, export_releases
from hsfiq.releases.filters import Filters
from tests.annotate.owner.studies_in_progress import Events, log_in, set_owner, watched_study
from tests.annotate.reused_study import ReusedStudy
from tests.annotate.served_studies import Place, browser_of, gradio_page

NAME = "telltale-study"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("watched"))
    database = watched_study(place)
    set_owner(database)
    database.close()
    return place


@pytest.fixture(scope="module")
def reused_watched(template: Place, tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    return ReusedStudy(template, tmp_path_factory.mktemp("reused"))


@pytest.fixture
def watched(reused_watched: ReusedStudy) -> Database:
    reused_watched.restore()
    return reused_watched.database


@pytest.fixture
def owner(reused_watched: ReusedStudy, watched: Database) -> Iterator[TestClient]:
    with browser_of(reused_watched.app) as client:
        assert log_in(client).status_code == 303
        yield client


def statuses(database: Database) -> dict[str, str]:
    with database.reading() as session:
        return {
            participant.name: participant.status
            for participant in session.scalars(select(Participant))
        }


def study_status(database: Database) -> str:
    with database.reading() as session:
        return list_studies(session)[0].status


def pending(answered: list[Any]) -> str:
    return str(answered[4])


def test_the_dashboard_shows_the_study(owner: TestClient) -> None:
    events = Events(owner)
    (load,) = [d["id"] for d in events.config["dependencies"] if d["targets"][0][1] == "load"]
    body = {"data": [], "fn_index": load, "session_hash": "s"}
    answer = owner.post("/owner/board/gradio_api/run/predict", json=body)
    chooser, refreshed_at, tiles, plots, latest, about_study, *rest = answer.json()["data"]
    people = rest[len(STUDY)]
    assert chooser["value"] == NAME
    assert "UTC" in refreshed_at
    for words in ("15<small> of 24", "62.5 %", "9<small> to reassign", "lease over: p3",
                  "0<small> of 0", "p3.form_1.2", "2 finished, 1 active, 1 excluded",
                  "6<small> of 14 answers", "2 without every image, 6 unknown"):  # fmt: skip
        assert words in tiles, words
    assert "64.3 %<small> of 14" in plots
    assert "Arithmetic (attempts): 2 passed, 1 failed" in plots
    assert people.count("<tr>") == 5
    assert "p1.form_2.2" in latest
    assert 'href="../export/1/hs"' in about_study


def test_sums_do_not_count_as_failed_checks(owner: TestClient) -> None:
    """p1 has given a wrong sum, and nobody has answered another check."""
    tiles, people = dashboard_of(owner)
    assert "Checks failed" in tiles
    assert "0<small> of 0" in tiles
    assert "1 of 2" not in people


def test_fast_answers_are_a_reason_to_look_at_a_participant(
    owner: TestClient, watched: Database
) -> None:
    reason = "6 of 6 answers in less than 2 s"
    assert reason not in dashboard_of(owner)[1]
    with watched.writing() as session:
        own = select(Question.id).join(Form).join(Participant).where(Participant.name == "p2")
        session.execute(
            update(Response).where(Response.question_id.in_(own)).values(active_seconds=0.0)
        )
    tiles, people = dashboard_of(owner)
    assert "to look at: p2" in tiles
    assert people.count(reason) == 1
    _, flagged = dashboard_of(owner, *("", True))
    assert "p2" in flagged
    assert flagged.count("<tr>") == 2
    page = owner.get("/owner/participant", params={"study": NAME, "name": "p2"})
    assert reason in page.text
    with watched.writing() as session:
        session.execute(
            update(Participant).where(Participant.name == "p2").values(status="excluded")
        )
    assert "to look at" not in dashboard_of(owner)[0]


@pytest.mark.parametrize(("looked_for", "found"), [
    ("p3", ["p3"]), ("P", ["p4", "p3", "p2", "p1"]), (" 5F8e ", ["p1"]), ("p9", []), ("%", []),
    ("_", []), ("\0", ["p4", "p3", "p2", "p1"]), (7, []),
])  # fmt: skip
def test_participants_are_found_by_name_and_platform_id(
    owner: TestClient, watched: Database, looked_for: object, found: list[str]
) -> None:
    with watched.writing() as session:
        session.execute(
            update(Participant).where(Participant.name == "p1").values(external_id="5f8e0c")
        )
    _, people = dashboard_of(owner, looked_for)
    assert re.findall(r'data-participant="(p\d)"', people) == found
    assert ("Nobody is found" in people) == (not found)


def test_participants_have_pages(
    owner: TestClient, watched: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participants, "PER_PAGE", 3)
    newest = ["p4", "p3", "p2"]
    for asked, number, names in (
        (1, 1, newest),
        (2, 2, ["p1"]),
        (9, 2, ["p1"]),
        (0, 1, newest),
        (-1, 1, newest),
    ):
        people, page = Events(owner).call("find", "submit", NAME, *("", False, asked))
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


def test_the_dashboard_shows_how_far_quotas_are_reached(
    owner: TestClient, watched: Database
) -> None:
    with watched.writing() as session:
        change_quotas(session, list_studies(session)[0], {"shirt": 2})
    events = Events(owner)
    (load,) = [d["id"] for d in events.config["dependencies"] if d["targets"][0][1] == "load"]
    body = {"data": [], "fn_index": load, "session_hash": "s"}
    about_study = owner.post("/owner/board/gradio_api/run/predict", json=body).json()["data"][5]
    assert "Participants by category: shirt 2 of 2 (reached)." in about_study


def test_the_dashboard_shows_the_last_release(
    owner: TestClient, watched: Database, tmp_path: Path
) -> None:
    with watched.reading() as session:
        (study,) = list_studies(session)
        recorder, folder = Recorder(watched, OWNER), tmp_path / "release"
        export_releases(session, study, ["hp"], Filters(), folder=folder, in_place=recorder)
    events = Events(owner)
    (load,) = [d["id"] for d in events.config["dependencies"] if d["targets"][0][1] == "load"]
    body = {"data": [], "fn_index": load, "session_hash": "s"}
    about_study = owner.post("/owner/board/gradio_api/run/predict", json=body).json()["data"][5]
    assert f"Last release: {NAME}-hp 1.0.0 of 20" in about_study
    assert "14 answers; since then 0 new answers and 0 changes." in about_study


def test_without_a_login_no_event_returns_or_changes_anything(
    owner: TestClient, watched: Database
) -> None:
    events = Events(owner)
    waiting = pending(events.call("person-pause", "click", NAME, "p1", ""))
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
    confirmation = events.call(f"person-{action}", "click", NAME, f" {person} ", " they\nasked ")
    assert PERSON[action].means in confirmation[2]
    assert "Reason: they\nasked" in confirmation[2]
    assert confirmation[1]["visible"] is True
    assert confirmation[3]["value"] == f"Yes, {PERSON[action].button.lower()} {person}"
    assert statuses(watched) == before
    outputs = events.call("yes", "click", pending(confirmation), NAME)
    assert f"{person}: {before[person]}" in outputs[0]
    assert outputs[1]["visible"] is False
    assert statuses(watched) == before | {person: status}
    with watched.reading() as session:
        assert list(session.scalars(select(StatusChange.reason))) == ["they\nasked"]


def test_reassigning_ends_the_lease(owner: TestClient, watched: Database) -> None:
    events = Events(owner)
    confirmation = events.call("person-reassign", "click", NAME, "p1", "")
    outputs = events.call("yes", "click", pending(confirmation), NAME)
    assert "the next participant gets the questions" in outputs[0].lower()
    assert "given back" in outputs[5 + 5 + len(STUDY)]
    with watched.reading() as session:
        (seen_at,) = session.scalars(select(Participant.seen_at).where(Participant.name == "p1"))
    assert seen_at is None


@pytest.mark.parametrize(("action", "status"), [("pause", "paused"), ("close", "closed")])
def test_the_study_is_paused_closed_and_opened(
    owner: TestClient, watched: Database, action: str, status: str
) -> None:
    events = Events(owner)
    confirmation = events.call(f"study-{action}", "click", NAME)
    assert STUDY[action].means in confirmation[2]
    assert study_status(watched) == "open"
    events.call("yes", "click", pending(confirmation), NAME)
    assert study_status(watched) == status
    confirmation = events.call("study-open", "click", NAME)
    events.call("yes", "click", pending(confirmation), NAME)
    assert study_status(watched) == "open"


def test_a_finished_study_cannot_be_opened(owner: TestClient, watched: Database) -> None:
    with watched.writing() as session:
        study = list_studies(session)[0]
        study.origin, study.status = "simulated", "closed"
    confirmation = Events(owner).call("study-open", "click", NAME)
    assert "cannot take more" in confirmation[0]
    assert pending(confirmation) == ""


def test_exactly_the_confirmed_action_is_performed(owner: TestClient, watched: Database) -> None:
    events = Events(owner)
    confirmation = events.call("person-exclude", "click", NAME, "p1", "")
    with watched.writing() as session:
        session.scalars(select(Participant).where(Participant.name == "p1")).one().status = "paused"
    outputs = events.call("yes", "click", pending(confirmation), NAME)
    assert "P1 is now paused, no longer active; try again" in outputs[0]
    assert statuses(watched)["p1"] == "paused"


@pytest.mark.parametrize("payload", [
    "", "x", "[]", "null", "{}", "[" * 5000, '{"study": 1}', None, 7, {"study": "x"},
    json.dumps({"study": NAME, "participant": "p1", "name": "forget", "status_seen": "active"}),
    json.dumps({"study": NAME, "participant": None, "name": "exclude", "status_seen": "open"}),
    json.dumps({"study": NAME, "participant": ["p1"], "name": "pause", "status_seen": "active"}),
    json.dumps({"study": NAME, "participant": "p1", "name": ["pause"], "status_seen": "active"}),
    json.dumps({"study": "other", "participant": "p1", "name": "pause", "status_seen": "active"}),
    json.dumps({"study": NAME, "participant": "p9", "name": "pause", "status_seen": "active"}),
])  # fmt: skip
def test_an_invalid_action_is_refused(watched: Database, payload: Any) -> None:
    with pytest.raises(Refused), watched.writing() as session:
        perform(session, from_json(payload), OWNER)
    assert statuses(watched)["p1"] == "active"


@pytest.mark.parametrize(("person", "message"), [
    ("", "has no participant"),
    ("p9", "has no participant"),
    ("<b>", "&lt;b&gt;"),
])  # fmt: skip
def test_an_unknown_participant_is_reported(owner: TestClient, person: str, message: str) -> None:
    confirmation = Events(owner).call("person-pause", "click", NAME, person, "")
    assert message in confirmation[0]
    assert confirmation[1]["visible"] is False


def test_an_action_without_effect_is_refused(owner: TestClient) -> None:
    confirmation = Events(owner).call("person-exclude", "click", NAME, "p4", "")
    assert "P4 is already excluded" in confirmation[0]


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


def test_an_export_needs_the_owner_and_a_study(owner: TestClient, watched: Database) -> None:
    for path in ("/owner/export/9/hs", f"/owner/export/{10**30}/hs"):
        assert owner.get(path).status_code == 404
    assert owner.get("/owner/export/1/xx").status_code == 404
    cross_site_headers = {"Sec-Fetch-Site": "cross-site"}
    assert owner.get("/owner/export/1/hs", headers=cross_site_headers).status_code == 403
    owner.cookies.clear()
    assert owner.get("/owner/export/1/hs").status_code == 401
