"""Decisions on people who have finished, and rules for leaving people out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from fastapi import FastAPI, Request, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Permission
from hsfiq.annotate.owner.downloads import csv_file
from hsfiq.annotate.owner.login import OWNER
from hsfiq.annotate.studio.shell import Act, Desk, Said, Studio, desk_of
from hsfiq.audit import record
from hsfiq.collect.owner import applied_rules, apply_rule, left_out_by, undo_rule
from hsfiq.collect.participant_row import ANSWER_COUNTS
from hsfiq.collect.participants import by_name
from hsfiq.collect.progress import ParticipantProgress
from hsfiq.collect.review import hides_results, wins_by_pair, wins_of_people
from hsfiq.db.engine import Database
from hsfiq.db.studio_tables import Job
from hsfiq.db.tables import Form, Participant, Payment, StatusChange, Study
from hsfiq.errors import Conflict, HsfiqError, Refused, UnreadableInput
from hsfiq.jobs import add_job, ask_to_stop, try_again
from hsfiq.payout import (
    SHORTEST_REASON,
    cents_of,
    decide,
    decisions_of,
    passed,
    pay_list,
    pay_people,
    rejection_reason,
    to_decide,
    undo_decision,
    undo_payments,
)
from hsfiq.payout import (
    rule_of as rule_of_checks,
)
from hsfiq.prolific_api import Access
from hsfiq.study.config import config_of
from hsfiq.study.filters import LIMITS, Limits, described, read_limits

DELAY = timedelta(minutes=10)
"""Prolific is notified of a decision after this delay; until then, it can be undone."""

SYMBOLS = {"GBP": "£", "USD": "$", "EUR": "€"}


def money(cents: int, currency: str) -> str:
    """An amount in the usual notation: `£1.80`, or `1.80 CHF`."""
    amount = f"{Decimal(cents) / 100:,.2f}"
    return f"{SYMBOLS[currency]}{amount}" if currency in SYMBOLS else f"{amount} {currency}".strip()


def reward_of(session: Session, study: Study) -> tuple[int, str] | None:
    """Prolific's reward in cents and its currency, known once somebody has been paid."""
    people = select(Participant.id).where(Participant.study_id == study.id)
    of_study = people.where(Participant.id == Payment.participant_id).exists()  # until one is found
    paid = select(Payment.cents, Payment.currency).where(Payment.kind == "approve", of_study)
    newest = paid.where(Payment.cents > 0).order_by(Payment.id.desc())
    return session.execute(newest.limit(1)).first()


def tells_prolific(study: Study) -> bool:
    """Whether this server notifies Prolific of decisions."""
    try:
        return study.platform_study_id is not None and Access.of_environment() is not None
    except UnreadableInput:  # the token cannot be used
        return False


# The decision on one person.


def decision_of(
    session: Session,
    study: Study,
    participant: Participant,
    progress: ParticipantProgress,
    reward: tuple[int, str] | None,
) -> Mapping[str, object]:
    """The values of `studio_decision.html`: it reads them from `decision`."""
    known = decisions_of(session, study, [participant.id]).get(participant.name)
    waiting = session.scalar(to_decide(study).where(Participant.id == participant.id))
    job = payment_job(session, participant)
    rule, failed = rule_of_checks(study, None, Decimal(0)), progress.failed_checks
    is_waiting = job is not None and job.state == "waiting"
    return {
        "person": participant.name,
        "is_out": participant.status == "excluded",
        "cause": progress.status_cause,
        "known": known,
        "paid": known and money(known.cents + known.bonus, known.currency),
        "waits": waiting is not None,
        "is_prolific": participant.source == "prolific",
        "is_told": participant.source == "prolific" and tells_prolific(study),
        "shortest": SHORTEST_REASON,
        "reward": money(*reward) if reward else "",
        "advises_reject": rule.max_failed_checks is not None and failed > rule.max_failed_checks,
        "reason": rejection_reason(failed, rule) if failed else "",
        "job": job,
        "minutes": (job.not_before - datetime.now(UTC)) // timedelta(minutes=1) + 1
        if job and is_waiting
        else 0,
        "can_undo": known and known.state == "recorded" and not (job and job.state == "running"),
    }


def payment_job(session: Session, person: Participant) -> Job | None:
    """The last job that notifies Prolific of the decision on a person."""
    of_study = select(Job).where(Job.study_id == person.study_id).order_by(Job.id.desc())
    jobs = session.scalars(of_study.where(Job.kind.in_(("pay", f"pay {person.id}"))))
    return next((job for job in jobs if person.name in people_in(job)), None)


def people_in(job: Job) -> set[str]:
    return {name for option, name in pairwise(job.commands[0]) if option == "--only"}


def add_payment(
    session: Session, desk: Desk, study: Study, people: Collection[Participant], kind: str = "pay"
) -> None:
    """Notify Prolific later of the decisions on its participants."""
    names = [person.name for person in people if person.source == "prolific"]
    if not names or not tells_prolific(study):
        return
    only = [word for name in names for word in ("--only", name)]
    commands = [
        ["prolific", "approve", study.name, "--reject", "--yes", *only],
        ["prolific", "bonus", study.name, "--yes", *only],
    ]
    one, many = "payment of {n} person on Prolific", "payment of {n} people on Prolific"
    about = desk.n(one, many, len(names))
    add_job(session, desk.actor, kind, about, commands, study_id=study.id, delay=DELAY)


COUNTS = {"count": True, "out": False, "": None}


def decide_on(desk: Desk) -> Said:
    """Decide on a person, and continue with the next person who is waiting."""
    chosen, answers = desk.text("pay"), desk.text("answers")
    if chosen not in ("approve", "bonus", "reject", "ask", "") or answers not in COUNTS:
        raise Refused("choose what to do")
    pay = "approve" if chosen == "bonus" else chosen
    with desk.writing() as (session, study):
        person = by_name(session, study, desk.text("person"))
        before, name = person.status, person.name
        decide(
            *(session, desk.actor, person, datetime.now(UTC)),
            pay=pay,
            bonus=cents_of(desk.text("bonus")) if chosen == "bonus" else 0,
            counts=COUNTS[answers],
            reason=desk.text("message" if pay == "ask" else "reason"),
        )
        if pay in ("approve", "reject"):
            add_payment(session, desk, study, [person], f"pay {person.id}")
        changed = {"before": before} if person.status != before else {}
    others = select(Participant.name).where(Participant.id.in_(to_decide(study)))
    others = others.order_by(Participant.id <= person.id, Participant.id).limit(1)
    with desk.database.reading() as session:
        following = session.scalar(others.where(Participant.id != person.id)) if pay else name
    undo = {"act": "undecide", "person": name, "asked": pay == "ask", **changed}
    go = "?" + urlencode({**desk.request.query_params, "person": following or name})
    line = desk.t(SAID[pay], name=name)
    if answers == "out" and pay in ("approve", "reject"):
        line += " " + desk.t("The answers are left out of results.")
    return Said(line, undo, go if pay else "")


SAID = {
    "approve": "{name} is to be paid.",
    "reject": "{name} is rejected.",
    "ask": "{name} was asked to answer again; the decision is still open.",
    "": "{name}: changed in the results.",
}


def undecide(desk: Desk) -> Said:
    """Undo a decision, and stop notifying Prolific of it."""
    asked, before = desk.given.get("asked") is True, desk.text("before")
    with desk.writing() as (session, study):
        person = by_name(session, study, desk.text("person"))
        stop_payment(session, payment_job(session, person), f"pay {person.id}")
        undo_decision(session, desk.actor, person, asked=asked, before=before)
    return Said(desk.t("The decision was undone."))


def stop_payment(session: Session, job: Job | None, kind: str) -> None:
    """Stop a waiting job of this kind; `Refused` if a job is running."""
    if job is None:
        return
    session.refresh(job, with_for_update=True)
    if job.state == "running":
        raise Refused("Prolific is being notified of this now")
    if job.state == "waiting" and job.kind == kind:
        ask_to_stop(session, job.id)


def pay_everybody(desk: Desk) -> Said:
    now = datetime.now(UTC)
    with desk.reading() as (session, study):
        people = passed(session, study)
    if len(people) != desk.number("n"):
        raise Conflict(f"the number of waiting people is now {len(people):,}", remedy="look again")
    with desk.writing() as (session, study):
        pay_people(session, study, desk.actor, people, now)
        add_payment(session, desk, study, people)
    line = desk.n("{n} person is to be paid.", "{n} people are to be paid.", len(people))
    return Said(line, {"act": "unpay-all", "at": now.isoformat()})


def unpay_everybody(desk: Desk) -> Said:
    try:
        decided_at = datetime.fromisoformat(desk.text("at")).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Refused("this is not the time of a decision") from error
    with desk.writing() as (session, study):
        jobs = select(Job).where(Job.study_id == study.id, Job.kind == "pay")
        stop_payment(session, session.scalar(jobs.order_by(Job.id.desc()).limit(1)), "pay")
        number = undo_payments(session, study, desk.actor, decided_at)
    return Said(desk.n("{n} decision was undone.", "{n} decisions were undone.", number))


def send_again(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        person = by_name(session, study, desk.text("person"))
        job = payment_job(session, person)
        if job is not None and job.state == "done":  # Prolific had no submission to review
            add_payment(session, desk, study, [person], f"pay {person.id}")
        else:
            try_again(session, job.id if job else 0)
    return Said(desk.t("It is sent to Prolific again."))


# Rules for leaving people out.

MOST_ANSWERS = 50_000
"""With more answers, the change in results is not computed."""


TRIED: WeakKeyDictionary[Database, tuple[object, dict[str, object]]] = WeakKeyDictionary()
"""A cache of the last rule and its data, because the page is fetched repeatedly."""


class Move(NamedTuple):
    """The change in a pair's win rate, with half its interval, in percent."""

    first: str
    second: str
    before: tuple[float, float]
    after: tuple[float, float]


def limits_in(desk: Desk) -> Limits:
    """The limits that are selected in the address."""
    query = desk.request.query_params
    return read_limits({name: query.get(name, "") for name in LIMITS if f"rule-{name}" in query})


def rule_of(
    desk: Desk, session: Session, study: Study, n_passed: int, reward: tuple[int, str] | None
) -> Mapping[str, object]:
    """The values of `studio_rule.html`, in `tried`, and the number of people to pay."""
    query = desk.request.query_params
    keys = [key for name in LIMITS for key in (name, f"rule-{name}")]
    values: dict[str, object] = {
        "query": query,
        "others": [(name, value) for name, value in query.items() if name not in keys],
        "declared": config_of(study).recruitment.max_failed_checks,
        "error": "",
        "limits": {},
        "people": [],
        "is_prolific": tells_prolific(study),
        "hidden": hides_results(session, study),
        "applied": {rule: len(people) for rule, people in applied_rules(session, study).items()},
        "n_passed": n_passed,
        "sum": money(reward[0] * n_passed, reward[1]) if reward else "",
    }
    if any(f"rule-{name}" in query for name in LIMITS):
        try:
            values |= preview(desk.database, session, study, limits_in(desk))
        except HsfiqError as error:
            values["error"] = str(error)
    return values


def preview(
    database: Database, session: Session, study: Study, limits: Limits
) -> dict[str, object]:
    """People whom a rule would leave out, and the change in results; None in `moves` if unknown."""
    sums = [func.sum(getattr(Participant, name)) for name in (*ANSWER_COUNTS, "n_revisions")]
    answers = session.execute(select(*sums).where(Participant.study_id == study.id)).one()
    last_change = session.scalar(select(func.max(StatusChange.id)))
    tried_on = (study.id, described(limits), tuple(answers), last_change)
    kept = TRIED.get(database)
    if kept is not None and kept[0] == tried_on:
        return kept[1]
    people, moves = left_out_by(session, study, limits), None
    if sum(number or 0 for number in answers[:-1]) <= MOST_ANSWERS:
        moves = moves_without(session, study, {excluded.person.id for excluded in people})
    values: dict[str, object] = {"limits": limits, "people": people, "moves": moves}
    if moves:
        values["points"] = max(abs(move.after[0] - move.before[0]) for move in moves)
        values["half_before"] = max(move.before[1] for move in moves)
        values["half_after"] = max(move.after[1] for move in moves)
    TRIED[database] = (tried_on, values)
    return values


def moves_without(session: Session, study: Study, left_out: Collection[int]) -> list[Move]:
    """The change in the win rates of all pairs of systems without these people."""
    people = wins_of_people(study).join(Participant, Form.participant_id == Participant.id)
    rows = session.execute(people.where(Participant.status != "excluded"))
    moves = []
    for pair, wins in sorted(wins_by_pair(rows).items()):
        kept = [wins[person] for person in wins if person not in left_out]
        moves.append(Move(*pair, rate(list(wins.values())), rate(kept)))
    return moves


def rate(wins: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """A win rate and half its interval over people, in percent, from each person's wins and total.

    Unknown values are NaN.
    """
    from hsfiq.analysis.resampling.intervals import rate_of_clusters  # noqa: PLC0415

    share, half = rate_of_clusters([won for won, _ in wins], [n for _, n in wins])
    return 100 * share, 100 * half


def apply(desk: Desk) -> Said:
    """Leave out the people selected by the rule in the address."""
    limits = limits_in(desk)
    with desk.reading() as (session, study):
        people = left_out_by(session, study, limits)
    if len(people) != desk.number("n"):
        raise Conflict(
            f"the number of people to leave out is now {len(people):,}", remedy="look again"
        )
    with desk.writing() as (session, study):
        names = apply_rule(session, study, limits, people, desk.actor)
    line = desk.n("{n} person is left out.", "{n} people are left out.", len(names))
    return Said(line, {"act": "unapply", "rule": described(limits)} if names else None)


def unapply(desk: Desk) -> Said:
    with desk.writing() as (session, study):
        names = undo_rule(session, study, desk.text("rule"), desk.actor)
    return Said(desk.n("{n} person counts again.", "{n} people count again.", len(names)))


ACTS: Mapping[str, Act] = {
    "decide": decide_on,
    "undecide": undecide,
    "pay-all": pay_everybody,
    "unpay-all": unpay_everybody,
    "send-again": send_again,
    "apply": apply,
    "unapply": unapply,
}


def add_pay_list(app: FastAPI, studio: Studio) -> None:
    @app.get(f"{OWNER}/study/{{study_id}}/pay.csv")
    def pay_csv(request: Request) -> Response:
        desk = desk_of(studio, request, Permission.MANAGE)
        with desk.reading() as (session, study):
            rows = list(pay_list(session, study))
        with desk.database.writing() as session:
            record(session, desk.actor, Action.PARTICIPANT_PAYOUT, study=study.name, about="all")
        return csv_file(f"{study.name}-pay.csv", rows)
