"""Reviews and bonuses on Prolific, against a server that keeps a ledger of what it has paid."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from hsfiq.audit import Selection, entries
from hsfiq.collect import participants
from hsfiq.collect.owner import forget
from hsfiq.db.engine import Database
from hsfiq.db.tables import Participant, Payment, Study
from hsfiq.study.config import Checks
from hsfiq.study.recruiting import Recruitment
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.processes import start_command
from tests.prolific_server import STUDY, TOKEN, FakeProlific, prolific_server
from tests.studies import GOOD, NOW, SMALL, Seat, draw, make_queries, pair_answer

TIE = pair_answer(3, 3, 0)
"""Given to every question, it passes repeated pairs; GOOD fails them, because the sides change."""

PROLIFIC = Recruitment(mode="prolific", completion_code="D0NE", max_failed_checks=1)

Rows = list[tuple[str, str, int, str]]


@pytest.fixture(autouse=True)
def prolific(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeProlific]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HSFIQ_DATABASE_URL", database_url)
    monkeypatch.setattr("hsfiq.prolific_api.SHORTEST_WAIT", 0.01)
    with prolific_server() as fake:
        fake.add_study()
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", fake.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        yield fake


PEOPLE = [
    ("careful", "active", TIE, "AWAITING REVIEW"),
    ("quick", "paused", TIE, "AWAITING REVIEW"),
    ("careless", "active", GOOD, "AWAITING REVIEW"),
    ("approved", "active", TIE, "APPROVED"),
    ("still-there", "active", TIE, "ACTIVE"),
    ("unfinished", "active", None, "ACTIVE"),
    ("declined", "screened-out", None, "ACTIVE"),
    ("unsent", "active", TIE, None),
]
"""Each person's id, status here, answers, and the status of the submission."""


@pytest.fixture
def study(database: Database, prolific: FakeProlific) -> int:
    """Participants of four questions and two repeated pairs: p1 to p8, as in `PEOPLE`."""
    design = replace(SMALL, preference_ties=True)
    queries = make_queries(database, {"shirt": 40})
    checks = Checks(arithmetic=False, repeated=1)
    key = draw(database, queries, design, checks=checks, recruitment=PROLIFIC)
    for person, status, answer, submission in PEOPLE:
        with database.writing() as session:
            row = participants.enrol(session, key, now=NOW, source="prolific", external_id=person)
            participants.consent(row, now=NOW)
            seat = Seat(database, row.id)
        for question in seat.question_ids if answer else ():
            seat.submit(question, answer or TIE)
        seat.set_status(status)
        if submission:
            prolific.add(person, submission)
    with database.writing() as session:
        session.get_one(Study, key).platform_study_id = STUDY
    return key


def command(*words: str) -> CommandResult:
    return hsfiq("prolific", *words)


def payments(database: Database) -> Rows:
    """Participant, kind, hundredths and state of each payment."""
    rows = select(Participant.name, Payment.kind, Payment.cents, Payment.state).join(
        Participant, Payment.participant_id == Participant.id
    )
    with database.reading() as session:
        return [tuple(row) for row in session.execute(rows.order_by(Payment.id))]  # type: ignore[misc]


def audited(database: Database) -> list[tuple[str, str]]:
    with database.reading() as session:
        return [(entry.action, entry.about) for entry in entries(session, Selection())]


BONUS = ("bonus", "--bonus-per-question", "0.05")


def test_reviews_are_planned_confirmed_and_sent(
    database: Database, study: int, prolific: FakeProlific, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = command("approve", "--dry-run")
    assert planned.err.splitlines() == [
        "study small: 2 to approve; 9.00 GBP in total, without Prolific's fees",
        "1 left as they are: they are APPROVED on Prolific",
        "1 left as they are: they have a submission that is ACTIVE on Prolific",
        "1 left as they are: they have no submission on Prolific",
        "1 left as they are: they failed too many checks",
        "1 left as they are: they have not answered all their questions",
        "1 left as they are: they were screened out or declined",
    ]
    assert planned.out == "study small: nothing was sent (--dry-run)\n"
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "9")
    assert "not confirmed" in command("approve").err
    assert (prolific.sent(), payments(database), audited(database)) == ([], [], [])

    monkeypatch.setattr("typer.prompt", lambda *_, **__: "9.00 GBP")
    sent = command("approve", "--json").result
    assert (sent["done"], sent["total"]) == ({"approve": 2}, "9.00 GBP")
    all_kinds = ("approve", "--reject", "--screen-out", "0.30", "--yes")
    assert command(*all_kinds).code == 0
    assert prolific.ledger == [
        ("approve", "s-careful", 450), ("approve", "s-quick", 450), ("reject", "s-careless", 0),
        ("screen-out", "s-declined", 30),
    ]  # fmt: skip
    assert command(*all_kinds).code == 0  # nothing is left to do
    assert len(prolific.ledger) == 4
    assert payments(database) == [
        ("p1", "approve", 450, "confirmed"), ("p2", "approve", 450, "confirmed"),
        ("p3", "reject", 0, "confirmed"), ("p7", "screen-out", 30, "confirmed"),
    ]  # fmt: skip
    assert audited(database) == [
        ("prolific.approve", "p1: 4.50 GBP"), ("prolific.approve", "p2: 4.50 GBP"),
        ("prolific.reject", "p3: 0.00 GBP"), ("prolific.screen-out", "p7: 0.30 GBP"),
    ]  # fmt: skip
    assert study


def test_bonuses_are_paid_once_to_those_who_are_approved(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    assert command("approve", "--yes").code == 0
    prolific.submissions["s-quick"]["bonus_payments"] = [100]  # by hand
    planned = command(*BONUS, "--dry-run", "--json")
    assert (planned.code, prolific.bulks) == (0, {})
    assert (planned.result["due"], planned.result["total"]) == ({"bonus": 2}, "0.60 GBP")
    assert planned.result["left"]["have a bonus on Prolific"] == 1
    prolific.holds = True
    assert command(*BONUS, "--yes").code == 0
    assert payments(database)[2:] == [
        ("p4", "bonus", 30, "confirmed"),
        ("p1", "bonus", 30, "confirmed"),
    ]
    again = command(*BONUS, "--yes", "--json").result  # before Prolific has paid
    assert (again["due"], again["left"]["are being paid, or were"]) == ({}, 2)
    prolific.pay_later(*prolific.held)
    assert prolific.paid("bonus") == {"s-careful": 1, "s-approved": 1}
    assert {state for *_, state in payments(database)} == {"confirmed"}
    assert command(*BONUS, "--yes", "--json").result["due"] == {}
    assert study


@on_sqlite
@pytest.mark.parametrize(("fault", "arrives"), [("lost", True), ("503", False)])
def test_a_bonus_without_an_answer_is_sent_again_only_if_it_was_not_paid(
    database: Database, study: int, prolific: FakeProlific, fault: str, arrives: bool
) -> None:
    prolific.holds = True
    prolific.forced.append(("/pay/", fault))
    first = command(*BONUS, "--yes", "--json")
    assert (first.code, len(first.result["problems"])) == (1, 1)
    assert payments(database) == [("p4", "bonus", 30, "sent")]
    waiting = command(*BONUS, "--yes", "--json")
    assert (waiting.code, waiting.result["waiting"], waiting.result["due"]) == (1, 1, {})
    assert "1 were sent without a reply: repeat the command after" in waiting.err
    assert (len(prolific.bulks), len(prolific.held)) == (1, arrives)
    for bulk in prolific.held:
        prolific.pay_later(bulk)
    prolific.holds = False
    time.sleep(1)
    last = command(*BONUS, "--yes", "--wait", "0.01", "--json")
    assert (last.code, last.result["sent_before"]) == (0, 0 if arrives else 1)
    assert len(prolific.bulks) == (1 if arrives else 2)
    assert prolific.paid("bonus") == {"s-approved": 1}
    assert audited(database) == [("prolific.bonus", "p4: 0.30 GBP")] * (1 if arrives else 2)
    assert study


@on_sqlite
def test_what_is_refused_is_sent_again(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    prolific.answers["set_up"] = {"id": "b" * 24, "amount": 900}
    result = command(*BONUS, "--yes")
    assert (result.code, result.err.splitlines()[-1]) == (
        1, "hsfiq: 1 bonus: Prolific: set up bonuses of 9.00 GBP instead of 0.30 GBP: not paid",
    )  # fmt: skip
    prolific.answers.clear()
    prolific.forced += [("/pay/", "429")] * 6
    assert "with 429" in command(*BONUS, "--yes").err
    assert payments(database) == [("p4", "bonus", 30, "recorded")]
    assert command(*BONUS, "--yes").code == 0
    assert prolific.paid("bonus") == {"s-approved": 1}
    # A submission that Prolific cannot approve holds up nobody else.
    prolific.forced += [("s-careful/transition", "503")] * 6
    result = command("approve", "--yes")
    assert (result.code, result.err.splitlines()[-1].startswith("hsfiq: p1: Prolific:")) == (
        1,
        True,
    )
    prolific.answers["review"] = {"id": "s-careful", "status": "AWAITING REVIEW"}
    assert "participant_id: Field required" in command("approve", "--yes").err
    prolific.answers.clear()
    assert command("approve", "--yes", "--json").result["done"] == {"approve": 2}
    assert set(prolific.paid("approve").values()) == {1}
    assert study


@on_sqlite
def test_what_was_paid_stays_after_the_person_is_forgotten(
    database: Database, study: int, prolific: FakeProlific
) -> None:
    assert command("approve", "--yes").code == 0
    with database.writing() as session:
        person = session.scalars(
            select(Participant).where(Participant.external_id == "careful")
        ).one()
        forget(session, person)
    with database.reading() as session:
        payment = session.scalars(select(Payment).where(Payment.participant_id == person.id)).one()
    assert (payment.cents, payment.currency, payment.submission_id) == (450, "GBP", None)
    assert command("sync").code == 0
    assert command("approve", "--yes").code == 0
    assert prolific.paid("approve") == {"s-careful": 1, "s-quick": 1}
    assert study


# ------------------------------------------------------------------- two hundred people, and kills

N = 200


def seat_many(database: Database, prolific: FakeProlific) -> None:
    """People who have answered their one question, and whose submissions await review."""
    design = replace(SMALL, questions_per_form=1, forms_per_participant=1)
    queries = make_queries(database, {"shirt": N})
    key = draw(database, queries, design, checks=Checks(arithmetic=False), recruitment=PROLIFIC)
    for number in range(N):
        person = f"{number:024x}"
        with database.writing() as session:
            row = participants.enrol(session, key, now=NOW, source="prolific", external_id=person)
            participants.consent(row, now=NOW)
        Seat(database, row.id).answer_all()
        prolific.add(person, "AWAITING REVIEW")
    with database.writing() as session:
        session.get_one(Study, key).platform_study_id = STUDY


@pytest.mark.slow
@on_sqlite
def test_everybody_is_paid_exactly_once_though_requests_fail_and_processes_are_killed(
    database: Database, prolific: FakeProlific, tmp_path: Path
) -> None:
    """A tenth of the requests fails; each of the two commands is killed three times."""
    seat_many(database, prolific)
    rng = Random(1)
    prolific.rng, prolific.faults, prolific.seconds = Random(1), 0.1, 0.002
    prolific.lists_bonuses = True
    log = tmp_path / "log"
    for words, requests in (
        (("approve", "--yes"), 50),
        ((*BONUS, "--yes", "--wait", "0.05"), 2),  # bonuses are set up, then paid
    ):
        for _ in range(3):
            last = len(prolific.sent()) + rng.randint(1, requests)
            process = start_command("prolific", *words, log=log)
            while len(prolific.sent()) < last and process.poll() is None:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, log.read_text()
        for _ in range(20):
            if start_command("prolific", *words, log=log).wait() == 0:
                break
            time.sleep(1)
        else:
            pytest.fail(log.read_text())
    everybody = {f"s-{number:024x}": 1 for number in range(N)}
    assert prolific.paid("approve") == everybody
    assert prolific.paid("bonus") == everybody
    assert sum(cents for _, _, cents in prolific.ledger) == N * (450 + 5)
    kinds = Counter((kind, state) for _, kind, _, state in payments(database))
    assert kinds == {("approve", "confirmed"): N, ("bonus", "confirmed"): N}
