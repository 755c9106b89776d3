"""Approvals, rejections, screen-outs and bonuses on Prolific; `hsfiq.payout` decides about them.

Nobody is paid twice and nobody is left out, wherever a process is killed or an answer is lost: what
is sent is recorded before, and what Prolific shows is read before anything is sent again. Of that,
approvals and rejections may be sent twice. A payment that must not be, and got no answer, is sent
again only if Prolific has not shown it for a long time, because Prolific pays later.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.actors import Action
from hsfiq.audit import record
from hsfiq.collect.studies import study_called
from hsfiq.db.tables import Participant, Payment
from hsfiq.payout import LEFT_OUT, payout_of, rule_of
from hsfiq.prolific import Counterpart, alone, bound_id, latest, money, people_of
from hsfiq.prolific_api import ProlificError, StudyReply, Submission, Unanswered
from hsfiq.text import count_text

Kind = Literal["approve", "reject", "screen-out", "bonus"]

CATEGORY = "FAILED_CHECK"
"""Prolific's category of our rejections: they are all for failed checks."""

BULK = 50
"""Bonuses of one request: Prolific takes 200; if one is not answered, fewer people wait for it."""

UNANSWERED = timedelta(minutes=30)
"""How long a payment may stay unseen on Prolific before it is sent again. It pays in minutes."""

STATUSES = {"approve": "APPROVED", "reject": "REJECTED", "screen-out": "SCREENED OUT"}
"""The status of a submission that shows that it was reviewed."""

ONCE = ("screen-out", "bonus")
"""The kinds of requests that must not be sent twice."""

ONE_ALONE = (400, 404, 409, 422)
"""The statuses of refusals that are about one submission; others are about all."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be sent about a participant's submission, in hundredths of the currency.

    `message` is what they read if they are rejected. `was_sent` if it was sent long ago without an
    answer, and Prolific does not show it.
    """

    participant_id: int
    participant: str
    submission: str
    kind: Kind
    cents: int
    message: str = ""
    was_sent: bool = False


@dataclass(slots=True)
class Plan:
    """What is due, and how many participants get nothing by what is said of them; then the result.

    Until `waiting_until`, nobody knows whether `waiting` participants are being paid. `done` counts
    what Prolific has accepted, `problems` are what it has not.
    """

    study: str
    platform_id: str
    currency: str
    due: list[Due] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    waiting_until: datetime | None = None
    done: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> str:
        """Without Prolific's fees."""
        return money(sum(each.cents for each in self.due), self.currency)

    @property
    def sent_before(self) -> int:
        return sum(each.was_sent for each in self.due)

    def counts(self) -> Counter[str]:
        return Counter(each.kind for each in self.due)

    def lines(self) -> Iterator[str]:
        """What is due, and who gets nothing, for the owner."""
        counts = ", ".join(f"{n:,} to {kind}" for kind, n in self.counts().items())
        due = counts or "there is nothing to send"
        yield f"study {self.study}: {due}; {self.total} in total, without Prolific's fees"
        if self.sent_before:
            yield f"{self.sent_before:,} of these were already sent, but Prolific lacks them"
        yield from (f"{n:,} left as they are: they {what}" for what, n in self.left.items())
        if self.waiting_until is not None:
            until = f"{self.waiting_until.astimezone():%H:%M:%S}"
            yield f"{self.waiting:,} were sent without a reply: repeat the command after {until}"

    def facts(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "due": dict(self.counts()),
            "sent_before": self.sent_before,
            "total": self.total,
            "left": dict(self.left),
            "waiting": self.waiting,
            "waiting_until": self.waiting_until.isoformat() if self.waiting_until else None,
            "done": dict(self.done),
            "problems": self.problems,
        }


Confirm = Callable[[Plan], bool]
"""Whether a plan is to be sent; it raises to refuse it."""


class Planner:
    """Compares what was decided here with what Prolific shows, and makes the plan."""

    def __init__(
        self, at: Counterpart, bonus: Decimal = Decimal(0), wait: timedelta = UNANSWERED
    ) -> None:
        with at.database.reading() as session:
            study = study_called(session, at.name)
            platform_id = bound_id(study)
            self.people: Mapping[str, Participant] = people_of(session, study)
            rule = rule_of(study, None, bonus)
            self.payout = payout_of(session, study, "prolific", rule, at.only)
            payments = select(Payment).join(Participant, Payment.participant_id == Participant.id)
            self._payments = {
                (each.participant_id, each.kind): each
                for each in session.scalars(payments.where(Participant.study_id == study.id))
            }
        # A payment that is made while the submissions are read may be missing from them.
        self._read_at = datetime.now(UTC)
        self.reply: StudyReply = at.client.study(platform_id)
        submissions = at.client.submissions(platform_id)
        self._last = latest(submissions)
        self._of_person: dict[str, list[Submission]] = defaultdict(list)
        for each in submissions:
            self._of_person[each.participant_id].append(each)
        self._at, self._wait = at, wait
        self._shown: list[int] = []
        self.plan = Plan(at.name, platform_id, self.reply.currency)

    def leave(self, what: str, number: int = 1) -> None:
        if number:
            self.plan.left[what] += number

    def leave_undecided(self, *, screened_out: bool = True) -> None:
        """Skip participants whom the rule does not cover."""
        for reason, number in self.payout.left_out.items():
            if screened_out or reason != "screened-out":
                self.leave(LEFT_OUT[reason], number)

    def add(
        self, kind: Kind, person: str, statuses: Iterable[str], cents: float, message: str = ""
    ) -> None:
        """Add a review or a payment for a person's submission, if one has such a status.

        Left are those to whom it was done, and those to whom it may still be done.
        """
        suitable = (each for each in self._of_person[person] if each.status in statuses)
        found = next(suitable, self._last.get(person))
        row = self.people[person]
        known = self._payments.get((row.id, kind))
        if found is not None and self._is_shown(kind, found):
            if known is not None and known.state != "confirmed":
                self._shown.append(known.id)
            is_so = "have a bonus" if kind == "bonus" else f"are {found.status}"
            self.leave(f"{is_so} on Prolific")
            return
        if found is None or found.status not in statuses:
            status = f"a submission that is {found.status}" if found else "no submission"
            self.leave(f"have {status} on Prolific")
            return
        is_other = known is not None and known.submission_id != found.id
        if known is not None and known.state == "confirmed" and (is_other or kind in ONCE):
            self.leave("are being paid, or were")
            return
        was_sent = known is not None and known.state == "sent"
        if known is not None and known.sent_at is not None and was_sent:
            until = known.sent_at + self._wait
            if self._read_at < until:
                self.plan.waiting += 1
                self.plan.waiting_until = max(until, self.plan.waiting_until or until)
                return
        due = Due(row.id, row.name, found.id, kind, round(cents), message, was_sent)
        self.plan.due.append(due)

    def _is_shown(self, kind: Kind, submission: Submission) -> bool:
        """Whether Prolific shows that this was done; lists of submissions may leave bonuses out."""
        if kind != "bonus":
            return submission.status == STATUSES[kind]
        if submission.bonus_payments is None:
            submission = self._at.client.submission(submission.id)
        return bool(submission.bonus_payments)

    def record(self) -> None:
        """Record what Prolific shows, and what is about to be sent, with an audit entry each."""
        now, plan = datetime.now(UTC), self.plan
        with self._at.database.writing() as session:
            for payment in session.scalars(select(Payment).where(Payment.id.in_(self._shown))):
                payment.state, payment.confirmed_at = "confirmed", now
            known_now = [(due, payment_of(session, due)) for due in plan.due]
            # A decision that was undone since the plan was made is not sent.
            planned = [
                (due, known)
                for due, known in known_now
                if known is not None or (due.participant_id, due.kind) not in self._payments
            ]
            plan.due = [due for due, _ in planned]
            for due, known in planned:
                payment = known or Payment(participant_id=due.participant_id, kind=due.kind)
                is_first = known is None or known.submission_id is None
                if is_first or payment.cents != due.cents or due.was_sent:
                    about = f"{due.participant}: {money(due.cents, plan.currency)}"
                    action = Action(f"prolific.{due.kind}")
                    record(session, self._at.actor, action, study=plan.study, about=about)
                payment.submission_id, payment.cents = due.submission, due.cents
                payment.currency, payment.state = plan.currency, "recorded"
                payment.recorded_at = known.recorded_at if known else now
                session.add(payment)


def mark(at: Counterpart, due: Iterable[Due], state: str, bulk: str | None = None) -> None:
    now = datetime.now(UTC)
    with at.database.writing() as session:
        for each in due:
            if (payment := payment_of(session, each)) is not None:  # the study is still there
                payment.state = state
                if state == "sent":
                    payment.sent_at, payment.bulk_id = now, bulk
                if state == "confirmed":
                    payment.confirmed_at = now


def payment_of(session: Session, due: Due) -> Payment | None:
    known = select(Payment).where(
        Payment.participant_id == due.participant_id, Payment.kind == due.kind
    )
    return session.scalars(known).one_or_none()


def decimal(cents: int) -> str:
    """An amount in Prolific's format: 425 becomes 4.25."""
    return f"{Decimal(cents) / 100:.2f}"


# Approving, rejecting and screening out.


def review(
    at: Counterpart, confirm: Confirm, *, rejects: bool, screen_out_cents: int | None
) -> Plan:
    """Review the submissions that await it, once `confirm` has agreed to the plan.

    By the limit of study.toml, and with `rejects`, people are rejected. Without an amount, those
    who were screened out here are left as they are.
    """
    with alone(at.database):
        planner = Planner(at)
        payout, awaiting = planner.payout, ("AWAITING REVIEW",)
        for payee in payout.approved:
            planner.add("approve", payee.platform_id, awaiting, planner.reply.reward)
        for each in payout.rejected if rejects else ():
            planner.add("reject", each.payee.platform_id, awaiting, 0, each.reason)
        if not rejects:
            planner.leave("failed too many checks", len(payout.rejected))
        planner.leave_undecided(screened_out=screen_out_cents is None)
        for key, person in planner.people.items() if at.only is None else ():
            if person.status == "screened-out" and screen_out_cents is not None:
                planner.add("screen-out", key, ("ACTIVE", *awaiting), screen_out_cents)
        if confirm(planner.plan):
            planner.record()
            send_reviews(at, planner.plan)
        return planner.plan


def send_reviews(at: Counterpart, plan: Plan) -> None:
    for due in plan.due:
        try:
            if due.kind == "screen-out":
                amount = decimal(due.cents)
                send = partial(at.client.screen_out, plan.platform_id, due.submission, amount)
                pay_once(at, [due], send)
            else:
                body = {"action": due.kind.upper()}
                if due.kind == "reject":
                    body |= {"message": due.message, "rejection_category": CATEGORY}
                at.client.review(due.submission, body)
                mark(at, [due], "confirmed")
            plan.done[due.kind] += 1
        except ProlificError as error:
            plan.problems.append(f"{due.participant}: {error}")
            if error.status not in ONE_ALONE:
                return


def pay_once(
    at: Counterpart, due: Sequence[Due], send: Callable[[], None], bulk: str | None = None
) -> None:
    """Send a payment that must not be sent twice; only a refusal proves that it was not made."""
    mark(at, due, "sent", bulk)
    try:
        send()
    except Unanswered:
        raise
    except ProlificError:
        mark(at, due, "recorded")
        raise
    mark(at, due, "confirmed")


# Bonuses.


def pay_bonuses(
    at: Counterpart, confirm: Confirm, per_question: Decimal, wait: timedelta = UNANSWERED
) -> Plan:
    """Pay bonuses to participants who are approved on Prolific, once `confirm` has agreed.

    People with a bonus there get none. `wait` is how long an unacknowledged bonus may stay unseen
    before it is sent again.
    """
    with alone(at.database):
        planner = Planner(at, per_question, wait)
        for payee, amount in planner.payout.bonuses:
            planner.add("bonus", payee.platform_id, ("APPROVED",), float(amount * 100))
        planner.leave("failed too many checks", len(planner.payout.rejected))
        planner.leave_undecided()
        if confirm(planner.plan):
            planner.record()
            send_bonuses(at, planner.plan)
        return planner.plan


def send_bonuses(at: Counterpart, plan: Plan) -> None:
    for start in range(0, len(plan.due), BULK):
        some = plan.due[start : start + BULK]
        amounts = {due.submission: decimal(due.cents) for due in some}
        cents = sum(due.cents for due in some)
        try:
            bulk = at.client.set_up_bonuses(plan.platform_id, amounts)
            if round(bulk.amount) != cents:
                found, wanted = (money(each, plan.currency) for each in (bulk.amount, cents))
                raise ProlificError(f"set up bonuses of {found} instead of {wanted}: not paid")
            pay_once(at, some, partial(at.client.pay_bonuses, bulk.id), bulk.id)
            plan.done["bonus"] += len(some)
        except ProlificError as error:
            number = count_text(len(some), "bonus", "bonuses")
            plan.problems.append(f"{number}: {error}")
            if not isinstance(error, Unanswered):
                return
