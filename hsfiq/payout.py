"""The pay of a study's participants: the owner's decisions, and lists for platforms.

For Prolific and panels, `approve.csv` has an id a line and `bonus.csv` an id and an amount, both
without a header, as Prolific's bulk actions take them. `reject.csv` has a header: rejections are
entered one at a time. For Mechanical Turk, the ids to approve and reject are those of assignments.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from sqlalchemy import Select, delete, literal, select
from sqlalchemy.orm import Session

from hsfiq.actors import Action, Actor
from hsfiq.atomic_files import draft_folder, explained_write_errors, names_in_folder
from hsfiq.audit import record
from hsfiq.collect.checks import question_checks
from hsfiq.collect.leases import IS_BEFORE_END
from hsfiq.collect.messages import send_message, take_back
from hsfiq.collect.owner import bring_back, perform, prepare
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.participants import Shown, among, changes_of, lock_participant
from hsfiq.collect.progress import ParticipantProgress, participants_of
from hsfiq.collect.stages import asks_at_end
from hsfiq.db.studio_tables import Draft
from hsfiq.db.tables import Message, Participant, Payment, QuestionnaireAnswers, Study, WorkedHit
from hsfiq.errors import Conflict, Refused, UnreadableInput
from hsfiq.study.capacity import duration_at
from hsfiq.study.config import config_of
from hsfiq.study.recruiting import PLATFORMS, PRODUCTION, Platform
from hsfiq.text import count_text, spreadsheet_text

CENT = Decimal("0.01")
PAYOUT_FILES = ("approve.csv", "reject.csv", "bonus.csv", "payout.json")
"""A folder with only these files is a payout, and may be replaced."""

LEFT_OUT = {
    "no platform id": "have no platform id; the pay list of the studio has them",
    "not from prolific": "did not come from Prolific",
    "not from mturk": "did not come from Mechanical Turk",
    "not from panel": "did not come from the panel",
    "no hit": "have no assignment on Mechanical Turk",
    "sandbox": "came from Mechanical Turk's sandbox",
    "unfinished": "have not answered all their questions",
    "questions at the end": "have not answered the questions at the end",
    "returned": "gave up",
    "screened-out": "were screened out or declined",
    "excluded": "were excluded",
}
"""The reasons for which a participant is in no list, each with its text for the owner."""

OF_PLATFORM: dict[Platform, tuple[str, ...]] = {
    "prolific": ("not from prolific",),
    "mturk": ("not from mturk", "no hit", "sandbox"),
    "panel": ("not from panel",),
}
"""The reasons that only one platform has."""


# What an owner decides about a participant.
#
# A decision about pay is a row of `payments`; Prolific is told later (`hsfiq.prolific_payments`).
# The reason of a rejection is the message that the participant gets in the same moment. Whether
# their answers count is their status.

REVIEWS = ("approve", "reject")
STATES = ("recorded", "sent", "confirmed")
SHORTEST_REASON = 100
"""Characters: Prolific takes no shorter reason of a rejection."""
LARGEST_BONUS = 100_000
"""In cents."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a participant's pay; `cents` are 0 until Prolific's reward is known.

    `state` is that of `Payment`, the furthest of the review and the bonus.
    """

    pay: str
    state: str = STATES[0]
    cents: int = 0
    bonus: int = 0
    currency: str = ""
    reason: str = ""


def decisions_of(session: Session, study: Study, shown: Shown | None = None) -> dict[str, Decision]:
    """The decisions by participant's name, of all or of those whose keys are `shown`."""
    has_reason = (Message.participant_id == Participant.id) & (
        Message.sent_at == Payment.recorded_at
    )
    rows = session.execute(
        select(Participant.name, Payment, Message.text)
        .join(Payment, Payment.participant_id == Participant.id)
        .outerjoin(Message, has_reason)
        .where(Participant.study_id == study.id, among(Participant.id, shown))
        .where(Payment.kind.in_((*REVIEWS, "bonus")))
        .order_by(Payment.recorded_at, Payment.id)
    )
    decisions: dict[str, Decision] = {}
    for name, payment, text in rows:
        known = decisions.get(name, Decision("approve"))
        known = replace(
            known,
            state=max(known.state, payment.state, key=STATES.index),
            currency=payment.currency or known.currency,
        )
        review = {"pay": payment.kind, "cents": payment.cents, "reason": text or ""}
        changes = {"bonus": payment.cents} if payment.kind == "bonus" else review
        decisions[name] = replace(known, **changes)
    return decisions


def to_decide(study: Study) -> Select[int]:
    """The keys of finished participants without a decision about their pay."""
    decided = select(Payment.id).where(
        Payment.participant_id == Participant.id, Payment.kind.in_(REVIEWS)
    )
    waiting = select(Participant.id).where(
        literal(study.origin == "collected"),
        Participant.study_id == study.id,
        Participant.status.in_(("active", "paused", "excluded")),
        Participant.enrolled_at.is_not(None),
        ~IS_BEFORE_END & ~decided.exists(),
    )
    if asks_at_end(StudyRow.of(study)):
        waiting = waiting.join(QuestionnaireAnswers)
    return waiting


def passed(session: Session, study: Study) -> Sequence[Participant]:
    """Undecided participants with counted answers and at most the allowed failed checks."""
    failed, rule = failed_question_checks(session, study), rule_of(study, None, Decimal(0))
    waiting = Participant.id.in_(to_decide(study)) & (Participant.status == "active")
    people = session.scalars(select(Participant).where(waiting).order_by(Participant.id))
    return [person for person in people if not is_rejected(failed[person.name], rule)]


def decide(
    session: Session,
    actor: Actor,
    person: Participant,
    now: datetime,
    *,
    pay: str = "",
    bonus: int = 0,
    counts: bool | None = None,
    reason: str = "",
) -> None:
    """Decide on a participant in a writing transaction.

    `pay` is one of `REVIEWS`, `ask` to send a message instead, or empty for no decision about it.
    `reason` is what somebody who is not paid reads, or why answers do not count. None in `counts`
    leaves whether they do.

    Raises:
        Conflict: the pay is already decided.
        Refused: the participant has not finished, or the decision is incomplete.
    """
    lock_participant(session, person)
    study, name = person.study, person.name
    if pay:
        require_payable(session, person, pay, bonus, reason)
    if pay in ("reject", "ask"):
        send_message(session, study, reason, to=person, now=now)
    if pay == "ask":
        record(session, actor, Action.STUDY_MESSAGE, study=study.name, about=name)
        return
    if pay:
        decided = {pay: 0} | ({"bonus": bonus} if bonus else {})
        session.add_all(new_payment(person.id, kind, decided[kind], now) for kind in decided)
        about = f"{name}: {pay}" + (f", bonus {Decimal(bonus) / 100:.2f}" if bonus else "")
        record(session, actor, Action.PARTICIPANT_DECIDE, study=study.name, about=about)
    if counts is (person.status == "excluded"):
        perform(session, prepare(study, "resume" if counts else "exclude", person, reason), actor)


def require_payable(
    session: Session, person: Participant, pay: str, bonus: int, reason: str
) -> None:
    if decisions_of(session, person.study, [person.id]):
        raise Conflict(
            f"the pay of {person.name} is already decided", remedy="undo the decision first"
        )
    if not session.scalar(to_decide(person.study).where(Participant.id == person.id)):
        raise Refused(f"{person.name} has not finished")
    if bonus and (pay != "approve" or not 0 < bonus <= LARGEST_BONUS):
        raise Refused(f"only paid participants get a bonus, of at most {LARGEST_BONUS // 100:,}")
    if pay == "reject" and person.source == "prolific" and len(reason.strip()) < SHORTEST_REASON:
        raise Refused(f"Prolific requires a reason of at least {SHORTEST_REASON} characters")


def new_payment(participant: int, kind: str, cents: int, now: datetime) -> Payment:
    values = {"currency": "", "state": STATES[0], "recorded_at": now}
    return Payment(participant_id=participant, kind=kind, cents=cents, **values)


def pay_people(
    session: Session, study: Study, actor: Actor, people: Sequence[Participant], now: datetime
) -> None:
    """Approve the people who are still undecided."""
    undecided = select(Participant.id).where(Participant.id.in_(to_decide(study)))
    session.execute(undecided.order_by(Participant.id).with_for_update())
    waiting = set(session.scalars(to_decide(study)))
    paid = [new_payment(person.id, "approve", 0, now) for person in people if person.id in waiting]
    session.add_all(paid)
    about = f"{count_text(len(paid), 'participant')}: approve"
    record(session, actor, Action.PARTICIPANT_DECIDE, study=study.name, about=about)


def undo_payments(session: Session, study: Study, actor: Actor, decided_at: datetime) -> int:
    """Undo the decisions of one moment that were not sent to Prolific; return their number."""
    people = select(Participant.id).where(Participant.study_id == study.id)
    undone = delete(Payment).where(
        Payment.participant_id.in_(people),
        Payment.recorded_at == decided_at,
        Payment.state == STATES[0],
    )
    number = len(session.scalars(undone.returning(Payment.id)).all())
    if number:
        about = f"{count_text(number, 'participant')}: undone"
        record(session, actor, Action.PARTICIPANT_DECIDE, study=study.name, about=about)
    return number


def undo_decision(
    session: Session, actor: Actor, person: Participant, *, asked: bool = False, before: str = ""
) -> None:
    """Undo what was decided on a participant's pay, or `asked`, and bring a status back.

    Raises:
        Conflict: there is no decision to undo.
        Refused: Prolific has been told, or the person has read the message.
    """
    lock_participant(session, person)
    kinds = Payment.kind.in_((*REVIEWS, "bonus"))
    payments = session.scalars(select(Payment).where(Payment.participant_id == person.id, kinds))
    undone = payments.all()
    if any(payment.state != STATES[0] for payment in undone):
        raise Refused(f"the decision about {person.name} was already sent to Prolific")
    last = changes_of(session, person.id)[-1:]
    is_last = [(change.before, change.after) for change in last] == [(before, person.status)]
    if not (undone or asked or is_last):
        raise Conflict(f"there is no decision about {person.name} to undo")
    for payment in undone:
        if payment.kind == "reject":
            take_back(session, person, payment.recorded_at)
        session.delete(payment)
    if asked:
        take_back(session, person)
    if undone or asked:
        about = f"{person.name}: undone"
        record(session, actor, Action.PARTICIPANT_DECIDE, study=person.study.name, about=about)
    if is_last:
        bring_back(session, person, before, actor)


def cents_of(text: str) -> int:
    """An amount such as 0.50 or 0,5 in cents; `Refused` if invalid."""
    try:
        cents = Decimal(text.strip().replace(",", ".")) * 100
        if 0 < cents <= LARGEST_BONUS and cents == int(cents):
            return int(cents)
    except ArithmeticError:
        pass
    raise Refused(f"{text[:40]!r} is not an amount from 0.01 to {LARGEST_BONUS // 100:,}")


PAY_COLUMNS = (
    *("participant", "platform", "platform_id", "answered", "failed_checks", "answers"),
    *("pay", "state", "amount", "bonus", "currency", "reason"),
)


def pay_list(session: Session, study: Study) -> Iterable[Sequence[str]]:
    """The finished or decided participants, below the names of the columns.

    Without a platform that states the reward, a participant is paid for the planned minutes, which
    do not depend on the answers, by the hourly pay of the set-up in the browser. An unknown amount
    is empty.
    """
    decisions, config = decisions_of(session, study), config_of(study)
    drawn_from = session.scalar(select(Draft.content).where(Draft.study_id == study.id)) or {}
    hourly = drawn_from.get("pay")
    yield PAY_COLUMNS
    for row in participants_of(session, study):
        known = decisions.get(row.participant)
        if known is None and not 0 < row.questions <= row.answered:
            continue
        person = (row.participant, row.source, row.platform_id or "", row.answered)
        answers = (row.failed_checks, "left out" if row.status == "excluded" else "count")
        decided = ("to decide", *[""] * 5)
        if known is not None:
            cents, currency = known.cents, known.currency
            if not cents and hourly and known.pay == "approve" and row.source not in PLATFORMS:
                minutes = duration_at(config, row.questions).minutes
                cents, currency = round(100 * hourly["per_hour"] * minutes / 60), hourly["currency"]
            amounts = [f"{Decimal(each) / 100:.2f}" for each in (cents, known.bonus)]
            amounts[0] = amounts[0] if cents or known.pay != "approve" else ""
            decided = (known.pay, known.state, *amounts, currency, known.reason)
        yield [spreadsheet_text(str(value)) for value in (*person, *answers, *decided)]


# Lists for the platforms.


@dataclass(frozen=True, slots=True)
class PayoutRule:
    """The payment rules.

    Attributes:
        max_failed_checks: who finished and failed more gold and repeated pairs is rejected; None
            rejects nobody.
        bonus_per_question: in the study's currency, for everybody who is approved.
    """

    max_failed_checks: int | None = None
    bonus_per_question: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Payee:
    """A participant's id on the platform, and on Mechanical Turk that of their assignment."""

    platform_id: str
    assignment_id: str | None = None

    @property
    def work(self) -> str:
        """What is approved or rejected."""
        return self.assignment_id or self.platform_id


@dataclass(frozen=True, slots=True)
class Rejection:
    payee: Payee
    reason: str


@dataclass(frozen=True, slots=True)
class Payout:
    """The lists, each sorted by platform id, and how many participants are in none, by reason."""

    study: str
    platform: Platform
    rule: PayoutRule
    approved: tuple[Payee, ...]
    rejected: tuple[Rejection, ...]
    bonuses: tuple[tuple[Payee, Decimal], ...]
    left_out: dict[str, int]

    def facts(self) -> dict[str, object]:
        """The rule and the counts, without any platform id; amounts are decimal texts."""
        return {
            "study": self.study,
            "platform": self.platform,
            "max_failed_checks": self.rule.max_failed_checks,
            "bonus_per_question": str(self.rule.bonus_per_question),
            "approved": len(self.approved),
            "rejected": len(self.rejected),
            "bonuses": len(self.bonuses),
            "bonus_total": str(sum((amount for _, amount in self.bonuses), Decimal("0.00"))),
            "left_out": self.left_out,
        }

    def files(self) -> dict[str, bytes]:
        rejected = [(each.payee.work, each.reason) for each in self.rejected]
        if self.platform == "mturk":
            head = [("worker_id", "assignment_id", "amount")]
            bonuses = [
                (payee.platform_id, payee.work, str(amount)) for payee, amount in self.bonuses
            ]
            bonus, work = csv_bytes([*head, *bonuses]), "assignment_id"
        else:
            bonus = csv_bytes((payee.platform_id, str(amount)) for payee, amount in self.bonuses)
            work = "platform_id"
        return {
            "approve.csv": csv_bytes((payee.work,) for payee in self.approved),
            "reject.csv": csv_bytes([(work, "reason"), *rejected]),
            "bonus.csv": bonus,
            "payout.json": (json.dumps(self.facts(), indent=2) + "\n").encode(),
        }


def rule_of(study: Study, max_failed_checks: int | None, bonus: Decimal) -> PayoutRule:
    """The rule with the given limit, or else with that of the study's file, if it has one."""
    stated = config_of(study).recruitment.max_failed_checks
    own_limit = None if stated < 0 else stated
    return PayoutRule(own_limit if max_failed_checks is None else max_failed_checks, bonus)


def payout_of(
    session: Session,
    study: Study,
    platform: Platform,
    rule: PayoutRule,
    only: Collection[str] | None = None,
) -> Payout:
    """Decide on every participant of the study as its answers are now.

    What the owner has decided wins over the rule and over a participant's status. With `only`,
    the lists have those of these participants on whom the owner has decided.
    """
    failed, decisions = failed_question_checks(session, study), decisions_of(session, study)
    hits = hits_of(session, study)
    rows = sorted(participants_of(session, study), key=lambda row: row.platform_id or "")
    if only is not None:
        rows = [row for row in rows if row.participant in decisions.keys() & set(only)]
    reasons = {
        row.participant: why_left_out(
            row, platform, hits.get(row.participant), is_decided=row.participant in decisions
        )
        for row in rows
    }
    finished = [row for row in rows if reasons[row.participant] is None]
    why = {row.participant: why_rejected(row, decisions, failed, rule) for row in finished}
    approved = [row for row in finished if not why[row.participant]]
    counts = Counter(reason for reason in reasons.values() if reason)
    foreign = {name for other, names in OF_PLATFORM.items() if other != platform for name in names}

    def payee(row: ParticipantProgress) -> Payee:
        hit = hits.get(row.participant) if platform == "mturk" else None
        return Payee(row.platform_id or "", hit.assignment_id if hit else None)

    return Payout(
        study=study.name,
        platform=platform,
        rule=rule,
        approved=tuple(map(payee, approved)),
        rejected=tuple(
            Rejection(payee(row), why[row.participant]) for row in finished if why[row.participant]
        ),
        bonuses=tuple(
            (payee(row), amount)
            for row in approved
            if (amount := bonus_of(row, rule, decisions.get(row.participant))) > 0
        ),
        left_out={reason: counts[reason] for reason in LEFT_OUT if reason not in foreign},
    )


def why_rejected(
    row: ParticipantProgress,
    decisions: Mapping[str, Decision],
    failed: Mapping[str, int],
    rule: PayoutRule,
) -> str:
    """The reason for the participant, by the owner's decision or else the rule; empty if none."""
    known, n_failed = decisions.get(row.participant), failed[row.participant]
    if is_rejected(n_failed, rule) if known is None else known.pay == "reject":
        return (known.reason if known else "") or rejection_reason(n_failed, rule)
    return ""


def hits_of(session: Session, study: Study) -> dict[str, WorkedHit]:
    """The HITs that participants work on, by participant's name."""
    rows = session.execute(
        select(Participant.name, WorkedHit)
        .join(WorkedHit, WorkedHit.participant_id == Participant.id)
        .where(Participant.study_id == study.id)
    )
    return dict(rows.all())


def failed_question_checks(session: Session, study: Study) -> Counter[str]:
    """The failed gold and repeated pairs by participant's name.

    Sums do not count: they are repeated until they are right.
    """
    checks = question_checks(session, StudyRow.of(study))
    keys = Counter(check.participant_id for check in checks if not check.passed)
    names = select(Participant.id, Participant.name).where(Participant.study_id == study.id)
    return Counter({name: keys[key] for key, name in session.execute(names) if key in keys})


def why_left_out(
    row: ParticipantProgress, platform: Platform, hit: WorkedHit | None, *, is_decided: bool = False
) -> str | None:
    """Why a participant is in no list, a key of `LEFT_OUT`; None if they are in one."""
    if row.platform_id is None:
        return "no platform id"
    if row.source != platform:
        return f"not from {platform}"
    if platform == "mturk" and (hit is None or hit.submit_to != PRODUCTION):
        return "no hit" if hit is None else "sandbox"
    return None if is_decided else why_undecided(row)


def why_undecided(row: ParticipantProgress) -> str | None:
    if row.status in LEFT_OUT:
        return row.status
    if row.questions == 0 or row.answered < row.questions:
        return "unfinished"
    # The completion code is shown only after these questions.
    return "questions at the end" if row.at_end_due else None


def is_rejected(failed: int, rule: PayoutRule) -> bool:
    return rule.max_failed_checks is not None and failed > rule.max_failed_checks


def rejection_reason(failed: int, rule: PayoutRule) -> str:
    """The text for the participant."""
    return (
        f"You failed {failed} attention checks in this study, and at most "
        f"{rule.max_failed_checks or 0} may be failed. An attention check is a question with an "
        "obvious answer, or an earlier question shown again."
    )


def bonus_of(row: ParticipantProgress, rule: PayoutRule, known: Decision | None) -> Decimal:
    """The bonus of an approved participant, as decided or by the rule, rounded half up to cents."""
    if known is not None and known.bonus:
        return (Decimal(known.bonus) / 100).quantize(CENT)
    return (row.answered * rule.bonus_per_question).quantize(CENT, ROUND_HALF_UP)


def csv_bytes(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write_payout(payout: Payout, folder: Path, *, force: bool = False) -> None:
    """Write the lists, completely or not at all; only their owner can read the files.

    Raises:
        UnreadableInput: see `require_free_payout`; or the folder cannot be written.
    """
    require_free_payout(folder, force=force)
    with explained_write_errors(folder), draft_folder(folder) as draft:
        for name, content in payout.files().items():
            path = draft / name
            path.touch(mode=0o600)
            path.write_bytes(content)


def require_free_payout(folder: Path, *, force: bool = False) -> None:
    """Check that the lists can be written to this folder.

    Raises:
        UnreadableInput: not a folder, or it holds other files, or lists and `force` is not given.
    """
    names = names_in_folder(folder)
    if not names.issubset(PAYOUT_FILES):
        raise UnreadableInput(
            str(folder), "holds files that are not a payout", "choose another folder"
        )
    if names and not force:
        raise UnreadableInput(str(folder), "lists already exist", "replace them with --force")
