"""`hsfiq prolific` against a server that stands for Prolific: drafts, publication, submissions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from hsfiq.collect import participants
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, StatusChange, Study
from hsfiq.errors import Busy
from hsfiq.prolific import RegularSync, alone, regular_sync
from hsfiq.prolific_api import Access
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import Recruitment
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.prolific_server import STUDY, TOKEN, FakeProlific, prolific_server
from tests.studies import NOW, Seat, draw, make_queries, set_status

CODES = Recruitment(
    mode="prolific", completion_code="D0NE", full_code="FU11", declined_code="N0",
    max_failed_checks=1, failed_checks_code="FA1L",
)  # fmt: skip
HOUR = ("--pay-per-hour", "12", "--url", "https://study.example.org/hsfiq")


@pytest.fixture(autouse=True)
def prolific(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeProlific]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    monkeypatch.setattr("hsfiq.prolific_api.SHORTEST_WAIT", 0.01)
    with prolific_server() as fake:
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", fake.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        yield fake


@pytest.fixture
def study(database: Database) -> int:
    """A study of four questions for each of five people, not bound to a study on Prolific."""
    queries = make_queries(database, {"shirt": 20})
    return draw(database, queries, checks=Checks(arithmetic=False), recruitment=CODES)


@pytest.fixture
def bound(database: Database, study: int, prolific: FakeProlific) -> int:
    prolific.add_study()
    with database.writing() as session:
        session.get_one(Study, study).platform_study_id = STUDY
    return study


def arrive(database: Database, study: int, person: str, *, answers: int) -> Seat:
    with database.writing() as session:
        row = participants.enrol(session, study, now=NOW, source="prolific", external_id=person)
        participants.consent(row, now=NOW)
        seat = Seat(database, row.id)
    seat.answer_until(answers + 1)
    return seat


def command(*words: str) -> CommandResult:
    return hsfiq("prolific", *words)


def refused(result: CommandResult, *words: str) -> None:
    """A refusal is one line, exit code 2, and never has the token."""
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    for each in words:
        assert each in result.err
    assert TOKEN not in result.err


def platform_id(database: Database, study: int) -> str | None:
    with database.reading() as session:
        return session.get_one(Study, study).platform_study_id


# ---------------------------------------------------------------------------------------- drafts


def test_a_draft_has_what_the_study_says_and_is_bound(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    planned = command("draft", *HOUR, "--dry-run")
    assert (planned.code, prolific.sent(), prolific.studies) == (0, [], {})
    # five people of four questions: the study's minutes at 12 an hour, each rounded up
    assert "5 places of" in planned.out
    assert platform_id(database, study) is None

    made = command("draft", *HOUR, "--json").result
    (drafted,) = prolific.studies.values()
    assert made["platform_study_id"] == drafted["id"] == platform_id(database, study)
    minutes = drafted["estimated_completion_time"]
    assert drafted["reward"] == 20 * minutes
    assert made["total"] == f"{minutes:.2f}"
    assert (drafted["name"], drafted["total_available_places"]) == ("Which set fits?", 5)
    assert drafted["external_study_url"] == (
        "https://study.example.org/hsfiq/start?PROLIFIC_PID={{%PROLIFIC_PID%}}"
        "&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}&study=small"
    )
    codes = {
        each["code"]: (each["code_type"], each["actions"][0]["action"])
        for each in drafted["completion_codes"]
    }
    assert codes == {
        "D0NE": ("COMPLETED", "MANUALLY_REVIEW"),
        "FA1L": ("FAILED_ATTENTION_CHECK", "MANUALLY_REVIEW"),
        "FU11": ("OTHER", "REQUEST_RETURN"),
        "N0": ("NO_CONSENT", "REQUEST_RETURN"),
    }
    again = command("draft", *HOUR)
    assert (again.code, "already exists on Prolific as UNPUBLISHED" in again.out) == (0, True)
    assert len(prolific.studies) == 1


@on_sqlite
def test_a_code_of_two_outcomes_is_sent_once(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    with database.writing() as session:
        row = session.get_one(Study, study)
        row.design = row.design | {"recruitment": {"mode": "prolific", "completion_code": "D0NE"}}
    Path("text.md").write_text("Compare pictures.\n", encoding="utf-8")
    assert command("draft", *HOUR, "--description", "text.md").code == 0
    (drafted,) = prolific.studies.values()
    assert [each["code_type"] for each in drafted["completion_codes"]] == ["COMPLETED"]
    assert drafted["description"] == "Compare pictures."


@on_sqlite
def test_a_draft_whose_creation_was_not_answered_is_found_again(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    prolific.forced.append(("POST /studies/", "lost"))
    refused(command("draft", *HOUR), "did not answer POST /studies/")
    assert platform_id(database, study) is None
    assert command("draft", *HOUR).code == 0
    assert list(prolific.studies) == [platform_id(database, study)]


@on_sqlite
def test_what_cannot_be_drafted_is_refused(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    refused(command("draft", "--pay-per-hour", "12"), "--url", "only from this machine")
    refused(command("draft", "--pay-per-hour", "much", *HOUR[2:]), "--pay-per-hour")
    draw(database, make_queries(database, dataset="other", systems=["d", "e"]), name="other")
    refused(command("draft", "other", *HOUR), "study other", "does not recruit on Prolific")
    refused(command("draft", "none", *HOUR), "no study is called 'none'")
    with database.writing() as session:
        row = session.get_one(Study, study)
        wanted = {"mode": "prolific", "completion_code": "D", "signed_links": True}
        row.design = row.design | {"recruitment": wanted}
    refused(command("draft", "small", *HOUR), "signed links", "--any-links")
    assert prolific.sent() == []


# ----------------------------------------------------------------------------------- publication


def test_a_study_is_published_after_its_cost_is_confirmed_and_paused(
    database: Database, bound: int, prolific: FakeProlific, monkeypatch: pytest.MonkeyPatch
) -> None:
    prolific.studies[STUDY]["status"] = "UNPUBLISHED"
    planned = command("publish", "--dry-run", "--json")
    assert (planned.code, planned.result["total"]) == (0, "45.00 GBP")
    assert "without Prolific's fees: 45.00 GBP" in planned.err
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "45")
    result = command("publish")
    assert (result.code, "not confirmed; nothing was sent" in result.err) == (2, True)
    assert prolific.sent() == []
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "45.00 GBP")
    assert command("publish").code == 0
    assert prolific.studies[STUDY]["status"] == "ACTIVE"
    assert command("publish", "--json").result["published"] is False

    prolific.forced.append(("transition", "lost"))
    assert command("pause").code == 0
    assert prolific.studies[STUDY]["status"] == "PAUSED"
    assert "was paused already" in command("pause").out
    assert command("publish", "--yes").code == 0
    actions = [path for method, path in prolific.sent() if method == "POST"]
    assert len(actions) == 3
    set_status(database, bound, "paused")
    refused(command("publish", "--yes"), "is paused: participants could not begin")


@on_sqlite
def test_a_change_that_was_not_carried_out_is_reported(bound: int, prolific: FakeProlific) -> None:
    prolific.forced.append(("transition", "503"))
    refused(command("pause"), "with 503", "try again later")
    prolific.studies[STUDY]["status"] = "COMPLETED"
    refused(command("pause"), "COMPLETED, which cannot become PAUSED")
    refused(command("publish", "--yes"), "COMPLETED, which cannot become ACTIVE")
    assert bound


# ------------------------------------------------------------------------ tokens and bad answers


@on_sqlite
def test_a_bad_setting_is_refused_in_one_line(
    bound: int, prolific: FakeProlific, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="utf-8")
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN_FILE", str(file))
    refused(command("sync"), "HSFIQ_PROLIFIC_TOKEN_FILE", "set one only")
    monkeypatch.delenv("HSFIQ_PROLIFIC_TOKEN")
    file.chmod(0o640)
    refused(command("sync"), str(file), "other users can read it", "chmod 600")
    file.chmod(0o600)
    assert command("sync").code == 0
    file.write_text("two words\n", encoding="utf-8")
    refused(command("sync"), str(file), "holds no token")
    monkeypatch.delenv("HSFIQ_PROLIFIC_TOKEN_FILE")
    refused(command("sync"), "HSFIQ_PROLIFIC_TOKEN", "is not set")
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", "wrong")
    refused(command("sync"), "with 401: Invalid token.", "still valid?")
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
    monkeypatch.setenv("HSFIQ_PROLIFIC_URL", "http://api.example.org")
    refused(command("sync"), "HSFIQ_PROLIFIC_URL", "is not an https address")
    assert repr(Access("https://x", TOKEN)) == "Access(url='https://x')"
    assert bound
    assert prolific.sent() == []


@on_sqlite
def test_an_unreachable_server_and_an_unknown_study_are_one_line(
    database: Database, bound: int, prolific: FakeProlific, monkeypatch: pytest.MonkeyPatch
) -> None:
    prolific.studies.clear()
    refused(command("approve", "--yes"), "with 404: no study", "does it exist")
    monkeypatch.setenv("HSFIQ_PROLIFIC_URL", "http://127.0.0.1:1")
    refused(command("sync"), "did not answer GET /submissions/", "try again later")
    with database.writing() as session:
        session.get_one(Study, bound).platform_study_id = None
    refused(command("sync"), "study small", "not bound to a study", "hsfiq prolific draft")


WRONG = [
    ("list_submissions", {"rows": []}, "results: Field required"),
    ("list_submissions", b"<html>", "is not as documented"),
    ("list_submissions", {"results": [{"id": "a,b", "participant_id": "p", "status": "X"}]}, "id"),
    (
        "list_submissions",
        {"results": [{"id": "a", "participant_id": "p", "status": "X", "study_id": "other"}]},
        "submissions to another study",
    ),
]


@on_sqlite
@pytest.mark.parametrize(("action", "answer", "words"), WRONG)
def test_a_wrong_answer_is_refused(
    bound: int, prolific: FakeProlific, action: str, answer: object, words: str
) -> None:
    prolific.answers[action] = answer
    refused(command("sync"), "hsfiq: Prolific:", words)
    assert bound


# ---------------------------------------------------------------------------------- submissions


def test_places_of_those_who_left_go_back_and_the_finished_keep_theirs(
    database: Database, bound: int, prolific: FakeProlific
) -> None:
    for person, answers, status in (
        ("returned", 1, "RETURNED"), ("timed-out", 0, "TIMED-OUT"), ("finished", 4, "TIMED_OUT"),
        ("working", 2, "ACTIVE"),
    ):  # fmt: skip
        arrive(database, bound, person, answers=answers)
        prolific.add(person, status)
    prolific.add("working", "RETURNED", submission="earlier")
    prolific.submissions["earlier"]["started_at"] = "2026-02-01T00:00:00Z"
    arrive(database, bound, "lost", answers=0)
    for person, status in (("stranger", "AWAITING REVIEW"), ("later", "RESERVED")):
        prolific.add(person, status)
    prolific.largest_page = 2  # smaller than asked for

    result = command("sync", "--json").result
    assert result["by_status"] == {
        "ACTIVE": 1, "AWAITING REVIEW": 1, "RESERVED": 1, "RETURNED": 2, "TIMED OUT": 2,
    }  # fmt: skip
    assert result["given_back"] == ["p1", "p2"]
    assert (result["unknown_here"], result["unknown_there"]) == (["stranger"], ["p5"])
    with database.reading() as session:
        statuses = dict(session.execute(select(Participant.name, Participant.status)).all())
        reasons = session.scalars(select(StatusChange.reason)).all()
    assert statuses == {
        "p1": "returned", "p2": "returned", "p3": "active", "p4": "active", "p5": "active",
    }  # fmt: skip
    assert sorted(reasons) == ["returned on Prolific", "timed out on Prolific"]
    with database.writing() as session:  # the places are free at once
        for person in ("next", "after"):
            participants.enrol(session, bound, now=NOW, source="prolific", external_id=person)
    assert command("sync", "--json").result["given_back"] == []
    assert prolific.sent() == []


@on_sqlite
def test_a_server_logs_a_problem_once_and_goes_on(
    database: Database, bound: int, prolific: FakeProlific, caplog: pytest.LogCaptureFixture
) -> None:
    arrive(database, bound, "returned", answers=1)
    prolific.add("returned", "RETURNED")
    compare = RegularSync(database, Access(prolific.url, TOKEN))
    prolific.forced += [("GET", "503"), ("GET", "lost")]
    with caplog.at_level(logging.WARNING, "hsfiq.prolific"):
        compare()
        compare()
        assert len(prolific.requests) == 2  # nothing is repeated: it asks again soon
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith("study small: its submissions were not read: Prolific: answered GET")
        compare()
    messages = [record.getMessage() for record in caplog.records][1:]
    assert messages == [
        "study small: its submissions on Prolific are read again",
        "study small: p1 left on Prolific; their places are free",
    ]
    set_status(database, bound, "closed")
    compare()
    assert len(prolific.requests) == 3
    with regular_sync(database, Access(prolific.url, TOKEN), 0.01):
        set_status(database, bound, "open")
        while len(prolific.requests) < 5:
            pass


def test_two_processes_do_not_pay_at_once(database: Database, other: Database) -> None:
    words = "another process is drafting or paying"
    with alone(database), pytest.raises(Busy, match=words), alone(other):
        pass
    with alone(other):
        pass


@on_sqlite
def test_requests_are_repeated_until_they_are_answered(bound: int, prolific: FakeProlific) -> None:
    prolific.forced += [("GET", "429"), ("GET", "503"), ("GET", "lost")]
    assert json.loads(command("sync", "--json").out)["by_status"] == {}
    assert len(prolific.requests) == 4
    prolific.forced += [("GET", "503")] * 6
    refused(command("sync"), "answered GET /submissions/ with 503")
    assert bound
