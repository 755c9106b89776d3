"""Arrivals by links: personal ones, those of platforms, lists of people, and signed links."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient
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
from tests.annotate.enrolment.visits import CODE, MTURK, PERSON, PROLIFIC, the_participant
from tests.annotate.page_requests import answer_body, view
from tests.annotate.served_studies import (
    Place,
    Visit,
    all_of,
    begin,
    count,
    newcomer,
    set_status,
    the_one,
    update_all,
)
from tests.hsfiq.samples import hsfiq
from tests.in_process import run_command

TEXT = entry_texts("en")


def test_a_prolific_link_makes_one_participant_and_its_session_is_not_stored(
    visit: Visit, place: Place
) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    for link in (MTURK, PROLIFIC | {"study": "other"}):
        assert client.get("/start", params=link).status_code == 404
    for link in (PROLIFIC, PROLIFIC, PROLIFIC | {"study": "telltale-study"}):
        answer = client.get("/start", params=link)
        assert (answer.status_code, answer.headers["location"]) == (303, "study/")
        client.cookies.clear()
    assert count(database) == 1
    participant = the_participant(database)
    assert (participant.source, participant.external_id) == ("prolific", PERSON)
    database.close()
    assert PROLIFIC["SESSION_ID"].encode() not in place.file.read_bytes()


def test_a_malformed_platform_id_is_refused(visit: Visit) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    wrong = ("", "a b", "<script>", "{{%PROLIFIC_PID%}}", "a" * 65)
    for parameters in (
        {},
        {"STUDY_ID": "64ab"},
        *({"PROLIFIC_PID": each} for each in wrong),
        {"PROLIFIC_PID": PERSON, "SESSION_ID": "../x"},
        {"workerId": "A1", "hitId": "\N{DRESS}"},
    ):
        assert client.get("/start", params=parameters).status_code == 400, parameters
    assert count(database) == 0


def bound_to(database: Database) -> str | None:
    return the_one(database, select(Study.platform_study_id))


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
            assert TEXT["other_platform_study"] in answer.text
            assert COOKIE not in client.cookies
        korean = client.get("/start", params=other_study, headers={"Accept-Language": "ko"})
        assert entry_texts("ko")["other_platform_study"] in korean.text
    assert (count(database), bound_to(database)) == (2, PROLIFIC["STUDY_ID"])
    for parameters in (PROLIFIC | {"PROLIFIC_PID": "another"}, without):
        client.cookies.clear()
        assert client.get("/start", params=parameters).status_code == 303
    stored_ids = all_of(database, select(Participant.platform_study_id).order_by(Participant.id))
    assert stored_ids == [None, "64ab", "64ab"]


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


@pytest.mark.parametrize(("mode", "title"), [
    ("prolific", "Begin on Prolific"),
    ("mturk", "Begin on Mechanical Turk"),
    ("invitation", TEXT["no_study_title"]),
])  # fmt: skip
def test_welcome_page_says_where_a_study_takes_people(visit: Visit, mode: str, title: str) -> None:
    client, database = visit(recruitment={"mode": mode})
    page = client.get("/").text
    assert (f"<h1>{title}</h1>" in page, "/enrol" in page) == (True, False)
    assert client.post("/enrol", data={"study": 1}).status_code == 410
    assert count(database) == 0
    set_status(database, "closed")
    assert TEXT["no_study_title"] in client.get("/").text


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
        assert bound_to(database) is None
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


def test_an_invalid_link(new_browser: TestClient) -> None:
    for token in ("x", "..%2f..%2fstudy.db", "%00", "a" * 65, "<script>", "None", "1"):
        answer = new_browser.get(f"/start/{token}")
        assert answer.status_code == 404, token
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


def address_of(database: Database) -> tuple[str, str]:
    return "--database", str(database.engine.url)


def written(folder: Path, *lines: str) -> str:
    (folder / "ids.txt").write_text("\n".join(lines) + "\n")
    return str(folder / "ids.txt")


def links_of(folder: Path, database: Database, *people: str) -> dict[str, dict[str, str]]:
    """The parameters of the signed link of each person."""
    ids, out = written(folder, *people), folder / "links.csv"
    out.unlink(missing_ok=True)
    options = ("--url", "https://study.example.org", "--out", str(out))
    run_command(folder, "participant", "links", ids, *options, *address_of(database))
    assert out.stat().st_mode & 0o777 == 0o600
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    parts = {row["platform_id"]: urlsplit(row["link"]) for row in rows}
    addresses = {(part.netloc, part.path) for part in parts.values()}
    assert addresses == {("study.example.org", "/start")}
    return {
        person: {name: values[0] for name, values in parse_qs(part.query).items()}
        for person, part in parts.items()
    }


def test_only_people_on_the_list_enrol(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(queries=24, recruitment={"mode": "prolific"})
    before = PROLIFIC | {"PROLIFIC_PID": "before"}
    assert client.get("/start", params=before).status_code == 303
    allow = ("participant", "allow", written(tmp_path, PERSON, "", PERSON, "other"))
    for added in (2, 0):
        assert f"{added} ids added; 2 ids" in run_command(tmp_path, *allow, *address_of(database))
    statuses = {}
    for person in (PERSON, "made-up", "before"):
        client.cookies.clear()
        answer = client.get("/start", params=PROLIFIC | {"PROLIFIC_PID": person})
        statuses[person] = answer.status_code
        if answer.status_code == 403:
            assert TEXT["not_invited"] in answer.text
            assert COOKIE not in client.cookies
    assert statuses == {PERSON: 303, "made-up": 403, "before": 303}
    assert count(database) == 2
    run_command(tmp_path, "participant", "allow", "--everybody", *address_of(database))
    client.cookies.clear()
    link = PROLIFIC | {"PROLIFIC_PID": "made-up"}
    assert client.get("/start", params=link).status_code == 303


def test_only_signed_links_are_accepted(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific", "signed_links": True})
    person, link = PERSON, PROLIFIC
    signed = links_of(tmp_path, database, person, "other")
    forged = [
        link,
        link | {"signature": ""},
        link | {"signature": "0" * 64},
        link | {"signature": signed["other"]["signature"]},
    ]
    for parameters in forged:
        answer = client.get("/start", params=parameters)
        assert answer.status_code == 403
        assert TEXT["not_invited_title"] in answer.text
    assert count(database) == 0
    assert client.get("/start", params=signed[person]).status_code == 303
    client.cookies.clear()
    # Not even somebody who has enrolled is continued by a link that anybody can make.
    assert client.get("/start", params=link).status_code == 403
    assert client.get("/start", params=signed[person]).status_code == 303
    assert count(database) == 1


def test_signed_links_are_switched_on_while_a_study_runs(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    change = ("study", "enrolment", "telltale-study")
    run_command(tmp_path, *change, "--signed-links", *address_of(database))
    assert client.get("/start", params=PROLIFIC).status_code == 403
    run_command(tmp_path, *change, "--any-links", *address_of(database))
    assert client.get("/start", params=PROLIFIC).status_code == 303


def test_files_that_hold_no_ids_change_nothing(visit: Visit, tmp_path: Path) -> None:
    client, database = visit(recruitment={"mode": "prolific"})
    allow = ("participant", "allow", *address_of(database))
    for lines, place in ((["a", "b c"], "line 2"), ([""], "ids.txt")):
        done = hsfiq(*allow, written(tmp_path, *lines))
        assert (done.code, place in done.err) == (2, True)
    assert hsfiq(*allow).code == 2
    assert client.get("/start", params=PROLIFIC).status_code == 303


def test_lists_and_signed_links_are_for_studies_on_platforms(visit: Visit, tmp_path: Path) -> None:
    """Mechanical Turk shows all workers the same address."""
    _, database = visit()
    for command, platform in (("allow", "a platform"), ("links", "Prolific")):
        done = hsfiq("participant", command, written(tmp_path, "a"), *address_of(database))
        assert (done.code, platform in done.err) == (2, True)
    update_all(
        database,
        Study,
        design=the_one(database, select(Study.design)) | {"recruitment": {"mode": "mturk"}},
    )
    signed = hsfiq("study", "enrolment", "telltale-study", "--signed-links", *address_of(database))
    assert (signed.code, "the same link" in signed.err) == (2, True)
