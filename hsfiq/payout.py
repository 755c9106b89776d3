"""Who of a study's participants from a platform is to be paid, as lists.

For Prolific and panels, `approve.csv` has an id a line and `bonus.csv` an id and an amount, both
without a header, as Prolific's bulk actions take them. `reject.csv` has a header: rejections are
entered one at a time. For Mechanical Turk, the ids to approve and reject are those of assignments.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.atomic_files import draft_folder, explained_write_errors, names_in_folder
from hsfiq.collect.checks import question_checks
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.progress import ParticipantProgress, participants_of
from hsfiq.db.tables import Participant, Study, WorkedHit
from hsfiq.errors import UnreadableInput
from hsfiq.study.config import config_of
from hsfiq.study.recruiting import PRODUCTION, Platform

CENT = Decimal("0.01")
PAYOUT_FILES = ("approve.csv", "reject.csv", "bonus.csv", "payout.json")
"""A folder that holds nothing else is a payout, and may be replaced."""

LEFT_OUT = {
    "no platform id": "have no platform id",
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


@dataclass(frozen=True, slots=True)
class PayoutRule:
    """How participants are paid.

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


def payout_of(session: Session, study: Study, platform: Platform, rule: PayoutRule) -> Payout:
    """Decide on every participant of the study as its answers are now."""
    failed = failed_question_checks(session, study)
    hits = hits_of(session, study)
    rows = sorted(participants_of(session, study), key=lambda row: row.platform_id or "")
    reasons = {
        row.participant: why_left_out(row, platform, hits.get(row.participant)) for row in rows
    }
    finished = [row for row in rows if reasons[row.participant] is None]
    rejected = [row for row in finished if is_rejected(failed[row.participant], rule)]
    approved = [row for row in finished if not is_rejected(failed[row.participant], rule)]
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
            Rejection(payee(row), rejection_reason(failed[row.participant], rule))
            for row in rejected
        ),
        bonuses=tuple(
            (payee(row), amount) for row in approved if (amount := bonus_of(row, rule)) > 0
        ),
        left_out={reason: counts[reason] for reason in LEFT_OUT if reason not in foreign},
    )


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
    return Counter({session.get_one(Participant, key).name: n for key, n in keys.items()})


def why_left_out(row: ParticipantProgress, platform: Platform, hit: WorkedHit | None) -> str | None:
    """Why nothing can be decided about a participant, a key of `LEFT_OUT`; None if it can."""
    if row.platform_id is None:
        return "no platform id"
    if row.source != platform:
        return f"not from {platform}"
    if platform == "mturk" and (hit is None or hit.submit_to != PRODUCTION):
        return "no hit" if hit is None else "sandbox"
    if row.status in LEFT_OUT:
        return row.status
    if row.questions == 0 or row.answered < row.questions:
        return "unfinished"
    # Whoever must answer them has not been shown the completion code.
    return "questions at the end" if row.at_end_due else None


def is_rejected(failed: int, rule: PayoutRule) -> bool:
    return rule.max_failed_checks is not None and failed > rule.max_failed_checks


def rejection_reason(failed: int, rule: PayoutRule) -> str:
    """The text for the participant."""
    return (
        f"You failed {failed} attention checks in this study, and at most "
        f"{rule.max_failed_checks} may be failed. An attention check is a question with an "
        "obvious answer, or an earlier question shown again."
    )


def bonus_of(row: ParticipantProgress, rule: PayoutRule) -> Decimal:
    """The bonus of an approved participant, rounded half up to cents."""
    return (row.answered * rule.bonus_per_question).quantize(CENT, ROUND_HALF_UP)


def csv_bytes(rows: Iterable[Sequence[str]]) -> bytes:
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
