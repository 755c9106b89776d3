"""Deciding on people on the page Watch: pay, results, and rules for leaving people out."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from statistics import median
from threading import Event
from time import monotonic
from typing import Any

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext, expect
from sqlalchemy import Select, select

from hsfiq.actors import OWNER, Actor, Role
from hsfiq.annotate.studio import decisions
from hsfiq.annotate.studio.decisions import moves_without
from hsfiq.answer_rules import Times, contradicts
from hsfiq.audit import Selection, entries
from hsfiq.collect import participants
from hsfiq.collect.asked_questions import mark_served, steps_of
from hsfiq.collect.owner import left_out_by
from hsfiq.collect.participant_row import read_row
from hsfiq.collect.progress import answers_of
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.studio_tables import Job
from hsfiq.db.tables import Message, Participant, Payment, StatusChange, Study
from hsfiq.drafts import create_draft, new_content
from hsfiq.jobs import Worker
from hsfiq.study.capacity import duration_at
from hsfiq.study.config import Checks, config_of
from hsfiq.study.filters import read_limits
from tests.annotate.axe import faults
from tests.annotate.conftest import running
from tests.annotate.owner.studies_in_progress import (
    PASSWORD,
    add_account,
    log_in,
    set_owner,
    submit,
)
from tests.annotate.served_studies import Place, ReusedStudy, browser_of, make_study
from tests.hsfiq.samples import hsfiq
from tests.processes import forked_jobs
from tests.prolific_server import STUDY, TOKEN, FakeProlific, prolific_server
from tests.studies import pair_answer

LONG = (
    "Both attention checks were failed, and questions were answered in 4 seconds on average. " * 2
)
N_PEOPLE = 6
"""All have finished but the last; p2 and p5 are careless."""


@pytest.fixture(scope="session")
def reused(tmp_path_factory: pytest.TempPathFactory) -> ReusedStudy:
    place = Place(tmp_path_factory.mktemp("decided"))
    make_decidable(place).close()
    return ReusedStudy(place, tmp_path_factory.mktemp("reused"))


@pytest.fixture
def study(reused: ReusedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setenv("HSFIQ_UPLOADS", str(tmp_path))
    reused.restore()
    return reused.database


@pytest.fixture
def owner(reused: ReusedStudy, study: Database) -> TestClient:
    assert study
    browser = browser_of(reused.app)
    assert log_in(browser).status_code == 303
    return browser


def make_decidable(place: Place) -> Database:
    database = make_study(
        place,
        queries=24,
        annotators_per_query=2,
        recruitment={"mode": "prolific", "completion_code": "D0NE", "max_failed_checks": 1},
        checks=Checks(arithmetic=False, repeated=1),
    )
    set_owner(database)
    now, rng = datetime.now(UTC), Random(3)
    with database.writing() as session:
        row = list_studies(session)[0]
        row.platform_study_id = STUDY
        for number in range(1, N_PEOPLE + 1):
            person = participants.enrol(
                session, row.id, now=now, source="prolific", external_id=f"person-{number}"
            )
            participants.consent(person, now=now)
            person.practised_at = now
            seat = read_row(session, person.token_hash)
            for step in steps_of(session, seat.id).steps:
                if number == N_PEOPLE and step.number > 2:
                    break
                mark_served(session, step.question_id, now)
                careless = number in (2, 5)
                preferred = 1 if careless else rng.choice([1, 2])
                scores = (3, 3) if careless else ((5, 2) if preferred == 1 else (2, 5))
                if number == 4 and rng.random() < 0.7:
                    scores = scores[::-1]
                times = Times(None, None, now, 3.0 if careless else 20.0 + number)
                answer = pair_answer(*scores, preferred, irrelevant=False, times=times)
                submit(session, seat, step.question_id, answer, 0)
            seat.store(session)
    return database


@pytest.fixture
def prolific(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProlific]:
    monkeypatch.setattr("hsfiq.prolific_api.SHORTEST_WAIT", 0.01)
    with prolific_server() as fake:
        fake.add_study()
        for number in range(1, N_PEOPLE + 1):
            fake.add(f"person-{number}", "AWAITING REVIEW")
        monkeypatch.setenv("HSFIQ_PROLIFIC_URL", fake.url)
        monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
        yield fake


WATCH = "/owner/study/1/watch"


def act(browser: TestClient, name: str, query: str = "", **given: Any) -> Any:
    return browser.post(f"{WATCH}{query}", json={"act": name, **given})


def done(browser: TestClient, name: str, query: str = "", **given: Any) -> Mapping[str, Any]:
    reply = act(browser, name, query, **given)
    assert reply.status_code == 200, reply.text
    result: Mapping[str, Any] = reply.json()
    return result


def undo(browser: TestClient, reply: Mapping[str, Any]) -> Mapping[str, Any]:
    given = dict(reply["undo"])
    return done(browser, given.pop("act"), **given)


def refused(browser: TestClient, name: str, query: str = "", **given: Any) -> str:
    reply = act(browser, name, query, **given)
    assert reply.status_code in (403, 404, 409, 422), reply.text
    error: str = reply.json()["error"]
    assert error
    assert "\n" not in error
    return error


def found(database: Database, statement: Select[Any]) -> list[Any]:
    with database.reading() as session:
        return list(session.scalars(statement))


def status(database: Database, name: str) -> str:
    (now,) = found(database, select(Participant.status).where(Participant.name == name))
    return str(now)


def payments(database: Database) -> list[tuple[str, str, int, str]]:
    rows = select(Participant.name, Payment.kind, Payment.cents, Payment.state)
    with database.reading() as session:
        known = session.execute(rows.join(Payment).order_by(Payment.id))
        return [(name, kind, cents, state) for name, kind, cents, state in known]


def audited(database: Database) -> list[tuple[str, str, str]]:
    with database.reading() as session:
        return [
            (entry.actor, entry.action, entry.about)
            for entry in entries(session, Selection())
            if entry.action.startswith(("participant", "study", "prolific"))
        ]


def jobs(database: Database) -> list[Job]:
    return found(database, select(Job).order_by(Job.id))


def run_jobs(database: Database) -> None:
    """Run what waits, as the server does, at once."""
    with database.writing() as session:
        for job in session.scalars(select(Job).where(Job.state == "waiting")):
            job.not_before = datetime.now(UTC)
    worker = Worker(database, Event())
    with forked_jobs():
        while (due := worker.next_job()) is not None:
            worker.run_job(due)


def decision(pay: str, answers: str = "count", **given: str) -> dict[str, str]:
    return {"pay": pay, "answers": answers, "person": "p1", **given}


# Decisions on one person.


@pytest.mark.parametrize(
    ("given", "paid", "after"),
    [
        (decision("approve"), [("approve", 0)], "active"),
        (decision("approve", "out", reason="a friend"), [("approve", 0)], "excluded"),
        (decision("bonus", bonus="0,50"), [("approve", 0), ("bonus", 50)], "active"),
        (decision("reject", "out", reason=LONG), [("reject", 0)], "excluded"),
        (decision("reject", reason=LONG), [("reject", 0)], "active"),
    ],
)
def test_pay_and_results_are_decided_and_undone(
    study: Database,
    owner: TestClient,
    given: dict[str, str],
    paid: list[tuple[str, int]],
    after: str,
) -> None:
    before = owner.get(f"{WATCH}?person=p1").text
    assert 'id="decide-p1"' in before
    reply = done(owner, "decide", "?person=p1&q=p", **given)
    assert reply["go"] == "?person=p2&q=p"
    assert payments(study) == [("p1", kind, cents, "recorded") for kind, cents in paid]
    assert status(study, "p1") == after
    shown = owner.get(f"{WATCH}?person=p1").text
    assert 'id="decided-p1"' in shown
    assert jobs(study) == []  # this server has no token
    again = act(owner, "decide", **given)
    assert (again.status_code, payments(study)) == (
        409, [("p1", kind, cents, "recorded") for kind, cents in paid]
    )  # fmt: skip
    undo(owner, reply)
    assert (payments(study), status(study, "p1")) == ([], "active")
    assert found(study, select(Message)) == []
    assert 'id="decide-p1"' in owner.get(f"{WATCH}?person=p1").text
    assert "no decision about" in refused(owner, "undecide", person="p1")
    names = [(action, about) for _, action, about in audited(study)]
    assert ("participant.decide", "p1: undone") in names
    assert {actor for actor, *_ in audited(study)} == {"owner"}


def test_asking_again_sends_a_message_and_leaves_the_decision_open(
    study: Database, owner: TestClient
) -> None:
    given = decision("ask", "out", message="Which lamp did you mean?")
    reply = done(owner, "decide", **given)
    assert [each.text for each in found(study, select(Message))] == ["Which lamp did you mean?"]
    assert (payments(study), status(study, "p1")) == ([], "active")
    assert ("owner", "study.message", "p1") in audited(study)
    undo(owner, reply)
    assert found(study, select(Message)) == []
    done(owner, "decide", **given)
    with study.writing() as session:
        message = session.scalars(select(Message)).one()
        person = session.scalars(select(Participant).where(Participant.name == "p1")).one()
        from hsfiq.collect.messages import mark_seen

        mark_seen(session, person.id, [message.id], datetime.now(UTC))
    assert "has already read" in refused(owner, "undecide", person="p1", asked=True)


@pytest.mark.parametrize(
    "given",
    [
        decision("reject", reason="short"),
        decision("reject", reason=" " * 200),
        decision("ask"),
        decision("ask", message="\0"),
        decision("bonus", bonus=""),
        decision("bonus", bonus="-1"),
        decision("bonus", bonus="1e9"),
        decision("bonus", bonus="NaN"),
        decision("bonus", bonus="0.001"),
        decision("bonus", bonus="1e999999999"),
        decision("pay"),
        decision("approve", "maybe"),
        decision("approve", person="p6"),
        decision("approve", person="p99"),
        decision("approve", person="../p1"),
        {"pay": 1, "answers": "count", "person": "p1"},
        {"pay": "approve", "answers": ["out"], "person": "p1"},
        {"pay": "approve", "answers": "count", "person": {"a": 1}},
        {},
    ],
)
def test_what_cannot_be_decided_is_refused_in_one_line(
    study: Database, owner: TestClient, given: dict[str, Any]
) -> None:
    refused(owner, "decide", **given)
    assert (payments(study), found(study, select(Message)), jobs(study)) == ([], [], [])
    assert set(found(study, select(Participant.status))) == {"active"}
    assert audited(study) == []


def test_answers_can_be_left_out_of_somebody_who_has_not_finished(
    study: Database, owner: TestClient
) -> None:
    page = owner.get(f"{WATCH}?person=p6").text
    assert "all questions are answered" in page
    assert '<input name="reason"' in page
    reply = done(owner, "decide", person="p6", pay="", answers="out", reason="it is a bot")
    assert (status(study, "p6"), reply["go"]) == ("excluded", "")
    assert "it is a bot" in owner.get(f"{WATCH}?person=p6").text
    undo(owner, reply)
    assert status(study, "p6") == "active"
    assert "no decision about" in refused(owner, "undecide", person="p6", before="active")


def test_the_last_decision_leads_to_the_first_who_waits(study: Database, owner: TestClient) -> None:
    for name, following in (("p5", "p1"), ("p1", "p2"), ("p2", "p3"), ("p3", "p4"), ("p4", "p4")):
        reply = done(owner, "decide", **decision("approve", person=name))
        assert reply["go"] == f"?person={following}"


def test_only_owners_decide(reused: ReusedStudy, study: Database) -> None:
    for name, role, may_see in (("ana", Role.ANALYST, True), ("hal", Role.HELPER, False)):
        add_account(study, name, role)
        browser = browser_of(reused.app)
        log_in(browser, name=name)
        page = browser.get(f"{WATCH}?person=p1&rule-seconds=1&seconds=9")
        assert (page.status_code == 200) is may_see
        assert not [each for each in decisions.ACTS if f'data-act="{each}"' in page.text]
        for act_name in decisions.ACTS:
            assert act(browser, act_name, **decision("approve")).status_code == 403
        assert browser.get("/owner/study/1/pay.csv").status_code == 403
    assert browser_of(reused.app).get("/owner/study/1/pay.csv").status_code != 200
    assert (payments(study), audited(study)) == ([], [])


def test_other_origins_decide_nothing(study: Database, owner: TestClient) -> None:
    reply = owner.post(
        WATCH, json={"act": "decide", **decision("approve")}, headers={"Origin": "https://evil.org"}
    )
    assert reply.status_code == 403
    assert payments(study) == []


# Prolific.


def test_prolific_is_told_later_and_once(
    study: Database, owner: TestClient, prolific: FakeProlific
) -> None:
    done(owner, "decide", **decision("bonus", bonus="0.50"))
    (job,) = jobs(study)
    assert timedelta(minutes=9) < job.not_before - datetime.now(UTC) <= timedelta(minutes=10)
    assert "Prolific is notified in 10 minutes" in owner.get(f"{WATCH}?person=p1").text
    assert Worker(study, Event()).next_job() is None  # not yet
    run_jobs(study)
    prolific.pay_accepted(before=monotonic())
    assert prolific.ledger == [("approve", "s-person-1", 450), ("bonus", "s-person-1", 50)]
    assert payments(study) == [
        ("p1", "approve", 450, "confirmed"), ("p1", "bonus", 50, "confirmed"),
    ]  # fmt: skip
    with study.writing() as session:  # as if the server had been killed at the end
        session.scalars(select(Job)).one().state = "waiting"
        session.scalars(select(Job)).one().step = 0
    run_jobs(study)
    prolific.pay_accepted(before=monotonic())
    assert len(prolific.ledger) == 2
    page = owner.get(f"{WATCH}?person=p1").text
    assert "Paid on Prolific: £5.00." in page
    assert "already sent to Prolific" in refused(owner, "undecide", person="p1")
    assert ("owner", "prolific.bonus", "p1: 0.50 GBP") in audited(study)
    assert [about for _, action, about in audited(study) if action == "prolific.approve"] == [
        "p1: 4.50 GBP"
    ]


def test_a_payment_is_undone_before_it_leaves(
    study: Database, owner: TestClient, prolific: FakeProlific
) -> None:
    reply = done(owner, "decide", **decision("reject", "out", reason=LONG))
    undo(owner, reply)
    assert [job.state for job in jobs(study)] == ["stopped"]
    run_jobs(study)
    assert prolific.sent() == []
    done(owner, "decide", **decision("reject", "out", reason=LONG))
    with study.writing() as session:
        session.scalars(select(Job).where(Job.state == "waiting")).one().state = "running"
    assert "being notified" in refused(owner, "undecide", person="p1")
    assert [kind for _, kind, *_ in payments(study)] == ["reject"]


def test_a_rejection_has_the_reason_and_what_prolific_refuses_can_be_sent_again(
    study: Database, owner: TestClient, prolific: FakeProlific, monkeypatch: pytest.MonkeyPatch
) -> None:
    prolific.submissions["s-person-1"]["status"] = "ACTIVE"
    done(owner, "decide", **decision("reject", reason=LONG))
    run_jobs(study)
    assert "no submission of p1 that awaits review" in owner.get(f"{WATCH}?person=p1").text
    assert prolific.ledger == []
    prolific.submissions["s-person-1"]["status"] = "AWAITING REVIEW"
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", "expired")
    done(owner, "send-again", person="p1")
    run_jobs(study)
    assert "is the token in HSFIQ_PROLIFIC_TOKEN" in owner.get(f"{WATCH}?person=p1").text
    monkeypatch.setenv("HSFIQ_PROLIFIC_TOKEN", TOKEN)
    prolific.forced = [("transition", "lost")]
    done(owner, "send-again", person="p1")
    run_jobs(study)
    assert prolific.paid("reject") == {"s-person-1": 1}
    assert "Rejected on Prolific." in owner.get(f"{WATCH}?person=p1").text
    refused(owner, "send-again", person="p2")


def test_a_decision_that_is_undone_after_the_plan_is_not_sent(
    study: Database, owner: TestClient, prolific: FakeProlific
) -> None:
    from hsfiq.prolific import Counterpart
    from hsfiq.prolific_api import Access, Prolific
    from hsfiq.prolific_payments import Plan, review

    reply = done(owner, "decide", **decision("approve"))

    def confirm(plan: Plan) -> bool:
        assert [due.participant for due in plan.due] == ["p1"]
        undo(owner, reply)
        return True

    with Prolific(Access.required()) as client:
        at = Counterpart(study, client, "telltale-study", Actor("test"), ["p1", "p2"])
        plan = review(at, confirm, rejects=True, screen_out_cents=None)
    assert (plan.done, prolific.ledger, payments(study)) == ({}, [], [])


def test_everybody_who_passed_is_paid_together(
    study: Database, owner: TestClient, prolific: FakeProlific
) -> None:
    page = owner.get(WATCH).text
    assert 'data-act="pay-all" data-n="3"' in page  # p2 and p5 failed two checks
    assert "look again" in refused(owner, "pay-all", n=2)
    refused(owner, "pay-all", n="many")
    reply = done(owner, "pay-all", n=3)
    undo(owner, reply)
    assert (payments(study), [job.state for job in jobs(study)]) == ([], ["stopped"])
    for at in ("", "soon", "9999-12-31T23:59:59-23:59", 1):
        refused(owner, "unpay-all", at=at)
    reply = done(owner, "pay-all", n=3)
    assert {name for name, *_ in payments(study)} == {"p1", "p3", "p4"}
    done(owner, "undecide", person="p3")
    run_jobs(study)
    assert prolific.paid("approve") == {"s-person-1": 1, "s-person-4": 1}
    assert undo(owner, reply)["say"] == "0 decisions were undone."
    assert len(payments(study)) == 2
    assert ("owner", "participant.decide", "3 participants: approve") in audited(study)


def pay_csv(owner: TestClient) -> str:
    reply = owner.get("/owner/study/1/pay.csv")
    assert reply.status_code == 200, reply.text
    return reply.text


def test_the_pay_list_has_everybody_and_the_decision(study: Database, owner: TestClient) -> None:
    done(owner, "decide", **decision("bonus", "out", bonus="0.5"))
    done(owner, "decide", **decision("reject", person="p2", reason="=1+1 " * 30))
    rows = {row["participant"]: row for row in csv.DictReader(StringIO(pay_csv(owner)))}
    assert list(rows) == ["p1", "p2", "p3", "p4", "p5"]
    assert [(row["pay"], row["bonus"], row["answers"]) for row in rows.values()] == [
        ("approve", "0.50", "left out"), ("reject", "0.00", "count"),
        *([("to decide", "", "count")] * 3),
    ]  # fmt: skip
    assert [row["amount"] for row in rows.values()] == ["", "0.00", "", "", ""]  # not known
    with study.writing() as session:
        draft = create_draft(session, OWNER, new_content("other", "Other"))
        draft.study_id, draft.content = (
            1,
            draft.content | {"pay": {"per_hour": 12.0, "currency": "EUR"}},
        )
        for person in session.scalars(select(Participant)):
            person.source = "invitation"
        config = config_of(session.get_one(Study, 1))
    rows = {row["participant"]: row for row in csv.DictReader(StringIO(pay_csv(owner)))}
    assert {row[None] for row in rows.values() if None in row} == set()
    minutes = duration_at(config, int(rows["p1"]["answered"])).minutes
    assert (rows["p1"]["amount"], rows["p1"]["currency"]) == (f"{minutes / 5:.2f}", "EUR")
    assert not rows["p2"]["reason"].startswith("=")
    assert ("owner", "participant.payout", "all") in audited(study)


# Rules.

RULE = "?rule-checks=1&checks=1&rule-seconds=1&seconds=6&rule-doubtful=1&doubtful=30"


def test_a_rule_is_tried_applied_and_undone(study: Database, owner: TestClient) -> None:
    page = owner.get(f"{WATCH}{RULE}").text
    assert "This rule would leave out 3 people" in page
    assert "people=p2%2Cp4%2Cp5" in page
    assert "not shown while results by system are hidden" in page
    assert "telltale-alpha" not in page
    assert "the number of people to leave out is now 3" in refused(owner, "apply", RULE, n=2)
    reply = done(owner, "apply", RULE, n=3)
    assert [status(study, f"p{n}") for n in (1, 2, 3, 4, 5)] == [
        "active", "excluded", "active", "excluded", "excluded",
    ]  # fmt: skip
    assert "This rule would not leave anybody out." in reply["page"]
    assert (
        "rule made after the first answers: more than 1 failed checks"
        in owner.get(f"{WATCH}?person=p2").text
    )
    kept = found(study, select(StatusChange.rule))
    assert {rule["declared"] for rule in kept if rule} == {False}
    undo(owner, reply)
    assert set(found(study, select(Participant.status))) == {"active"}
    done(owner, "unapply", rule="no such rule")
    assert [action for _, action, _ in audited(study)] == [
        *["participant.exclude"] * 3, *["participant.resume"] * 3
    ]  # fmt: skip


def test_a_rule_that_was_fixed_before_the_launch_says_so(
    study: Database, owner: TestClient
) -> None:
    reply = done(owner, "apply", "?rule-checks=1&checks=1", n=2)
    assert reply["undo"]["rule"] == "more than 1 failed checks"
    assert "rule fixed before the launch" in owner.get(f"{WATCH}?person=p2").text


def test_releases_name_a_rule_that_was_made_later(
    study: Database, owner: TestClient, tmp_path: Path
) -> None:
    done(owner, "apply", "?rule-seconds=1&seconds=6", n=2)
    url = study.engine.url.render_as_string()
    out = ("--release", "hp", "--out", tmp_path / "out", "--database", url)
    assert hsfiq("export", *out).code == 0
    lines = (tmp_path / "out" / "exclusions.jsonl").read_text().splitlines()
    dropped = [json.loads(line) for line in lines]
    reasons = {row["value"] for row in dropped if row["rule"] == "excluded"}
    made = "rule made after the first answers: less than 6 s for a question (median)"
    assert reasons == {f"participant excluded: {made}"}


@pytest.mark.browser
def test_the_button_names_what_is_done_and_a_refresh_keeps_the_choice(
    reused: ReusedStudy, study: Database, context: BrowserContext
) -> None:
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    with running(reused.server()) as server:
        page.goto(f"{server.url}/owner/login")
        page.fill("#password", PASSWORD)
        page.click("button[name=enter]")
        page.goto(f"{server.url}{WATCH}?person=p1")
        button = page.locator("#do")
        expect(button).to_have_text("Pay, count the answers", use_inner_text=True)
        for name, value, text in (
            ("pay", "bonus", "Pay with a bonus, count the answers"),
            ("answers", "out", "Pay with a bonus, leave the answers out"),
            ("pay", "ask", "Ask p1 to answer again"),
            ("pay", "reject", "Reject, leave the answers out"),
        ):
            page.locator(f"[name={name}][value={value}]").check(force=True)
            expect(button).to_have_text(text, use_inner_text=True)
        page.fill("[name=reason]", LONG)
        page.locator("#do").focus()
        with page.expect_response(lambda reply: reply.request.method == "GET", timeout=20_000):
            pass  # the page is fetched again
        expect(page.locator("[name=reason]")).to_have_value(LONG)
        button.click()
        expect(page.locator("#said")).to_contain_text("p1 is rejected.")
        assert "person=p2" in page.url
        page.click("#said button")
        expect(page.locator("#said")).to_contain_text("The decision was undone.")
        assert (payments(study), status(study, "p1")) == ([], "active")
        page.goto(f"{server.url}{WATCH}{RULE}&person=p2")
        assert list(faults(page)) == []
        page.close()
    assert errors == []


def test_moves_are_shown_once_results_are(study: Database, owner: TestClient) -> None:
    with study.writing() as session:
        list_studies(session)[0].status = "closed"
    assert "telltale-alpha against telltale-beta" in owner.get(f"{WATCH}{RULE}").text


@pytest.mark.parametrize(
    "query",
    [
        "?rule-checks=1&checks=", "?rule-checks=1&checks=x", "?rule-seconds=1&seconds=-1",
        "?rule-side=1&side=nan", "?rule-side=1&side=101", "?rule-doubtful=1&doubtful=1e999",
        "?rule-checks=1", "?rule-side=1&side=%3Cscript%3E",
    ],
)  # fmt: skip
def test_a_wrong_limit_is_refused(study: Database, owner: TestClient, query: str) -> None:
    page = owner.get(f"{WATCH}{query}")
    assert page.status_code == 200
    assert "is not a number from 0 to" in page.text
    assert "<script>" not in page.text.partition("<main")[2]
    refused(owner, "apply", query, n=0)
    refused(owner, "apply", "", n=0)
    assert audited(study) == []


def test_figures_of_a_rule_equal_a_slow_computation(study: Database) -> None:
    """Each figure anew from the single answers, in Python."""
    limits = read_limits({"seconds": "6", "side": "90", "doubtful": "30"})
    with study.reading() as session:
        row = session.scalars(select(Study)).one()
        people = left_out_by(session, row, limits)
        moves = moves_without(session, row, {each.person.id for each in people})
        answers = answers_of(session, row)
    own: dict[str, list[Any]] = defaultdict(list)
    for answer in answers:
        own[answer.participant].append(answer)
    expected = {}
    for name, given in own.items():
        judged = [each for each in given if each.check is None]
        values: dict[str, float] = {}
        seconds = median(each.active_seconds for each in given)
        if seconds < 6:
            values["seconds"] = seconds
        if len(judged) >= 5:
            sides = [each.preferred for each in judged]
            side = 100 * max(sides.count(1), sides.count(2)) / len(judged)
            doubtful = [contradicts(each.preferred, *each.scores) for each in judged]
            if side > 90:
                values["side"] = side
            if (share := 100 * sum(doubtful) / len(judged)) > 30:
                values["doubtful"] = share
        if values:
            expected[name] = (len(judged), values)
    assert {each.person.name: (each.n_answers, each.beyond) for each in people} == expected
    assert len(expected) == 3
    shares = slow_shares(study, set())
    without = slow_shares(study, set(expected))
    assert {(move.first, move.second) for move in moves} == shares.keys()
    for move in moves:
        pair = (move.first, move.second)
        assert move.before[0] == pytest.approx(100 * shares[pair])
        assert move.after[0] == pytest.approx(100 * without[pair])


def slow_shares(database: Database, left_out: set[str]) -> dict[tuple[str, str], float]:
    """By two systems, the share of preferences for the first."""
    from hsfiq.collect.question_history import question_history

    won: dict[tuple[str, str], list[float]] = defaultdict(list)
    with database.reading() as session:
        row = session.scalars(select(Study)).one()
        for answer in answers_of(session, row):
            if answer.check is not None or answer.participant in left_out:
                continue
            history = question_history(session, row, answer.question_id)
            assert history is not None
            first, second = map(str, history.systems)
            if first == second:
                continue
            share = {0: 0.5, 1: 1.0, 2: 0.0}[answer.preferred or 0]
            pair = (min(first, second), max(first, second))
            won[pair].append(share if pair == (first, second) else 1 - share)
    return {pair: sum(shares) / len(shares) for pair, shares in won.items()}
