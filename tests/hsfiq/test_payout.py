"""`hsfiq participant payout`: who is approved, rejected and paid a bonus."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update

from hsfiq.collect import participants
from hsfiq.collect.stages import store_answers, work_on
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Study
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import Hit
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.studies import GOOD, NOW, SMALL, Seat, draw, make_queries, pair_answer, row_of

FILES = ["approve.csv", "bonus.csv", "payout.json", "reject.csv"]
TIE = pair_answer(3, 3, 0)
"""Given to every question, it passes repeated pairs; GOOD fails them, because the sides change."""


@pytest.fixture(autouse=True)
def own_folder(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)


@pytest.fixture
def paid_study(database: Database) -> Database:
    """Participants of four questions and two repeated pairs: one for every outcome."""
    design = replace(SMALL, preference_ties=True)
    queries = make_queries(database, {"shirt": 40})
    study = draw(database, queries, design, checks=Checks(arithmetic=False, repeated=1))
    outcomes = [
        ("b-careful", "prolific", "active", TIE),
        ("a-careful", "prolific", "paused", TIE),
        ("careless", "prolific", "active", GOOD),
        ("unfinished", "prolific", "active", None),
        ("gone", "prolific", "returned", TIE),
        ("excluded", "prolific", "excluded", TIE),
        ("worker", "mturk", "active", TIE),
        (None, "open", "active", TIE),
    ]
    for external_id, source, status, answer in outcomes:
        with database.writing() as session:
            person = participants.enrol(
                session, study, now=NOW, source=source, external_id=external_id
            )
            participants.consent(person, now=NOW)
        seat = Seat(database, person.id)
        for question in seat.question_ids if answer else seat.question_ids[:1]:
            seat.submit(question, answer or TIE)
        seat.set_status(status)
    return database


def payout(*words: str) -> CommandResult:
    return hsfiq("participant", "payout", "--study", "small", "--platform", "prolific", *words)


def contents(folder: str = "out") -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(Path(folder).iterdir())}


def test_the_lists(paid_study: Database) -> None:
    words = ("--max-failed-checks", "1", "--bonus-per-question", "0.0525")
    command = payout("--out", "out", *words)
    assert (command.code, command.err) == (0, "")
    first, *others = command.out.splitlines()
    assert first == (
        "study small, prolific: 2 to approve, 1 to reject, 2 bonuses of 0.64 in total, in out"
    )
    assert others == [
        "1 in no list: they have no platform id; the pay list of the studio has them",
        "1 in no list: they did not come from Prolific",
        "1 in no list: they have not answered all their questions",
        "1 in no list: they gave up",
        "1 in no list: they were excluded",
    ]
    files = contents()
    assert list(files) == FILES
    assert files["approve.csv"] == "a-careful\nb-careful\n"
    # 6 x 0.0525 = 0.315, rounded half up
    assert files["bonus.csv"] == "a-careful,0.32\nb-careful,0.32\n"
    head, row = files["reject.csv"].splitlines()
    person, _, reason = row.partition(",")
    assert (head, person) == ("platform_id,reason", "careless")
    assert "You failed 2 attention checks in this study, and at most 1 may be failed" in reason
    assert len(reason) > 100  # Prolific's minimum
    assert not [name for name in ("careful", "careless", "gone") if name in files["payout.json"]]
    assert {stat.S_IMODE(path.stat().st_mode) for path in Path("out").iterdir()} == {0o600}

    assert payout("--out", "again", *words).code == 0
    assert contents("again") == files


@on_sqlite
def test_nobody_is_rejected_without_a_limit(paid_study: Database) -> None:
    """The limit of the study's file is the default."""
    facts = json.loads(payout("--out", "out", "--json").out)
    assert facts["left_out"] == {
        "no platform id": 1, "not from prolific": 1, "unfinished": 1,
        "questions at the end": 0, "returned": 1, "screened-out": 0, "excluded": 1,
    }  # fmt: skip
    assert (facts["approved"], facts["rejected"], facts["bonuses"]) == (3, 0, 0)
    assert (facts["bonus_total"], facts["folder"]) == ("0.00", "out")
    files = contents()
    assert (files["reject.csv"], files["bonus.csv"]) == ("platform_id,reason\n", "")
    with paid_study.writing() as session:
        row = session.scalars(select(Study)).one()
        row.design = row.design | {"recruitment": {"mode": "prolific", "max_failed_checks": 1}}
    assert payout("--out", "stated").code == 0
    assert Path("stated/reject.csv").read_text().splitlines()[1].startswith("careless,")
    assert payout("--out", "given", "--max-failed-checks", "9").code == 0
    assert "careless" in Path("given/approve.csv").read_text()


@on_sqlite
def test_nobody_is_paid_before_the_questions_at_the_end(paid_study: Database) -> None:
    """Until then, nobody has seen a completion code; in a closed study everybody sees theirs."""
    asked = {"at_end": [{"name": "age", "type": "number", "text": "Your age?"}]}
    with paid_study.writing() as session:
        study = session.scalars(select(Study)).one()
        study.design = study.design | {"questionnaire": asked}
        finished = session.scalars(select(Participant.id).order_by(Participant.id)).first()
        assert finished is not None
        store_answers(session, row_of(session, finished), {"age": 30}, NOW)
    facts = json.loads(payout("--out", "out", "--json").out)
    assert (facts["approved"], facts["left_out"]["questions at the end"]) == (1, 2)
    assert contents()["approve.csv"] == "b-careful\n"
    standings = json.loads(hsfiq("study", "status", "--json").out)["standings"]
    assert (standings["finished"], standings["at the questions at the end"]) == (1, 3)
    with paid_study.writing() as session:
        session.scalars(select(Study)).one().status = "closed"
    facts = json.loads(payout("--out", "out", "--json", "--force").out)
    assert (facts["approved"], facts["left_out"]["questions at the end"]) == (3, 0)


@on_sqlite
def test_nothing_is_overwritten_without_force(paid_study: Database) -> None:
    assert payout("--out", "out").code == 0
    before = contents()
    refused = payout("--out", "out", "--bonus-per-question", "1")
    assert (refused.code, "replace them with --force" in refused.err) == (2, True)
    assert contents() == before
    assert payout("--out", "out", "--bonus-per-question", "1", "--force").code == 0
    assert contents()["bonus.csv"] != before["bonus.csv"]
    Path("out/notes.txt").write_text("mine")
    assert "not a payout" in payout("--out", "out", "--force").err
    assert Path("out/notes.txt").read_text() == "mine"
    Path("file").write_text("mine")
    assert "not a folder" in payout("--out", "file", "--force").err


@on_sqlite
def test_a_bonus_is_an_amount_of_money(paid_study: Database) -> None:
    for amount in ("", "-1", "1,5", "nan", "1e3", "1.2345678"):
        refused = payout("--out", "out", "--bonus-per-question", amount)
        assert (refused.code, "is not an amount" in refused.err) == (2, True)
    assert not Path("out").exists()


@on_sqlite
def test_the_lists_for_a_panel_name_people(paid_study: Database) -> None:
    with paid_study.writing() as session:
        session.execute(
            update(Participant).where(Participant.source == "prolific").values(source="panel")
        )
    words = ("--study", "small", "--platform", "panel", "--bonus-per-question", "0.05")
    command = hsfiq("participant", "payout", *words, "--out", "out")
    assert command.code == 0
    assert "1 in no list: they did not come from the panel" in command.out
    files = contents()
    assert files["approve.csv"] == "a-careful\nb-careful\ncareless\n"
    assert files["bonus.csv"].startswith("a-careful,0.30\n")
    facts = json.loads(files["payout.json"])
    assert (facts["platform"], facts["left_out"]["not from panel"]) == ("panel", 1)


# ------------------------------------------------------------------------------- Mechanical Turk


@pytest.fixture
def framed_study(database: Database) -> Database:
    """Workers with an assignment each, but for one; and one of the sandbox."""
    queries = make_queries(database, {"shirt": 40})
    design = replace(SMALL, preference_ties=True)
    study = draw(database, queries, design, checks=Checks(arithmetic=False))
    hits = [
        ("b-worker", TIE, "https://www.mturk.com"),
        ("a-worker", TIE, "https://www.mturk.com"),
        ("unfinished", None, "https://www.mturk.com"),
        ("tester", TIE, "https://workersandbox.mturk.com"),
        ("earlier", TIE, None),
    ]
    for worker, answer, submit_to in hits:
        with database.writing() as session:
            person = participants.enrol(session, study, now=NOW, source="mturk", external_id=worker)
            if submit_to:
                work_on(session, row_of(session, person.id), Hit(f"of-{worker}", "30H4", submit_to))
            participants.consent(person, now=NOW)
        seat = Seat(database, person.id)
        for question in seat.question_ids if answer else seat.question_ids[:1]:
            seat.submit(question, answer or TIE)
    return database


def test_the_lists_for_mechanical_turk_name_assignments(framed_study: Database) -> None:
    words = ("--study", "small", "--platform", "mturk", "--bonus-per-question", "0.05")
    command = hsfiq("participant", "payout", *words, "--out", "out")
    assert (command.code, command.err) == (0, "")
    assert command.out.splitlines() == [
        "study small, mturk: 2 to approve, 0 to reject, 2 bonuses of 0.40 in total, in out",
        "1 in no list: they have no assignment on Mechanical Turk",
        "1 in no list: they came from Mechanical Turk's sandbox",
        "1 in no list: they have not answered all their questions",
    ]
    files = contents()
    assert list(files) == FILES
    assert files["approve.csv"] == "of-a-worker\nof-b-worker\n"
    assert files["reject.csv"] == "assignment_id,reason\n"
    assert files["bonus.csv"] == (
        "worker_id,assignment_id,amount\na-worker,of-a-worker,0.20\nb-worker,of-b-worker,0.20\n"
    )
    facts = json.loads(files["payout.json"])
    assert (facts["platform"], facts["left_out"]["not from mturk"]) == ("mturk", 0)
    assert "not from prolific" not in facts["left_out"]


def people(folder: str) -> dict[str, list[str]]:
    return {name: contents(folder)[name].splitlines() for name in FILES if name.endswith(".csv")}


def test_what_the_owner_decided_wins_over_rule_and_status(paid_study: Database) -> None:
    """p1 to p8 as in `paid_study`; p1 is rejected by hand, p3 and p6 are paid."""
    decide, reason = ("participant", "decide"), "You answered each question in less than a second. "
    for words in (
        ("p1", "reject", "--reason", 3 * reason),
        ("p3", "approve", "--bonus", "1,50"),
        ("p6", "approve"),
    ):
        assert hsfiq(*decide, *words).code == 0, words
    assert (
        payout("--out", "out", "--bonus-per-question", "0.05", "--max-failed-checks", "1").code == 0
    )
    lists = people("out")
    assert lists["approve.csv"] == ["a-careful", "careless", "excluded"]
    assert lists["bonus.csv"] == ["a-careful,0.30", "careless,1.50", "excluded,0.30"]
    (_, rejected) = lists["reject.csv"]
    assert rejected == f"b-careful,{3 * reason}".strip()
    assert hsfiq(*decide, "p1", "undo").code == 0
    assert payout("--out", "out", "--force").code == 0
    assert "b-careful" in people("out")["approve.csv"]
    for words, message in (
        (("p1", "reject", "--reason", "short"), "requires a reason of at least 100 characters"),
        (("p1", "approve", "--bonus", "0"), "'0' is not an amount"),
        (("p3", "approve"), "is already decided"),
        (("p4", "approve"), "has not finished"),
        (("p1", "undo"), "no decision about"),
        (("p9", "approve"), "no participant 'p9'"),
    ):
        refused = hsfiq(*decide, *words)
        assert refused.code != 0
        assert refused.err.count("\n") == 1
        assert message in refused.err


def test_people_are_left_out_by_a_rule_and_brought_back(paid_study: Database) -> None:
    rule = ("participant", "exclude-by-rule", "--checks", "1")
    assert paid_study
    tried = hsfiq(*rule, "--dry-run", "--json").result
    assert tried["participants"] == ["p3"]
    assert tried["rule"] == "more than 1 failed checks"
    assert hsfiq(*rule).out == "1 participant: p3\n"
    assert hsfiq(*rule).out == "0 participants\n"
    assert hsfiq(*rule, "--undo").out == "1 participant: p3\n"
    for words in ((), ("--side", "101"), ("--seconds", "nan"), ("--doubtful", "-1")):
        refused = hsfiq("participant", "exclude-by-rule", *words)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
