"""How far a participant is on the way from consent to thanks, read from the database alone."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.collect import participants
from hsfiq.collect.leases import DEPARTED_STATUSES
from hsfiq.collect.protocol import Completion
from hsfiq.collect.steps import Steps
from hsfiq.db.tables import Participant, Question
from hsfiq.errors import Conflict
from hsfiq.study.config import config_of

Stage = Literal[
    "consent", "practice", "asking", "done", "paused", "closed", "declined", "ended", "handed-on"
]


def stage_of(participant: Participant, standing: Steps) -> Stage:
    """The stage at which the participant is; `asking` is a question or a check."""
    if participant.status in DEPARTED_STATUSES:
        has_declined = participant.status == "screened-out" and participant.consented_at is None
        return "declined" if has_declined else "ended"
    if standing.current is None:
        return "done" if standing.total else "handed-on"
    if not may_answer(participant):
        return "closed" if participant.study.status == "closed" else "paused"
    if participant.consented_at is None:
        return "consent"
    if participant.practised_at is None and standing.answered == 0:
        return "practice"
    return "asking"


def may_answer(participant: Participant) -> bool:
    """Whether an answer of theirs would be taken now, a revision too."""
    return participant.study.status == "open" and participant.status == "active"


def decide(session: Session, participant: Participant, *, agrees: bool, now: datetime) -> None:
    """Keep what the participant says on the consent page; the first word counts.

    Raises:
        Conflict: they decline what they have agreed to in another window.
    """
    # One row lock: of two windows, one is second.
    session.execute(
        select(Participant.id).where(Participant.id == participant.id).with_for_update()
    )
    session.refresh(participant)
    if participant.status != "active":
        return
    if agrees:
        participants.consent(participant, now=now)
    elif participant.consented_at is None:
        participants.set_status(participant, "screened-out")
    else:
        raise Conflict("you have agreed already, in another window")


def completion(participant: Participant, stage: Stage, answered: int) -> Completion:
    """The study's completion code and address, for a stage at which they are due.

    Whoever comes too late or is let go after having answered gets them as well: platforms ask
    for the code, and the time was spent.
    """
    recruitment = config_of(participant.study).recruitment
    is_due = (
        stage in ("done", "closed")
        or (stage == "handed-on" and answered > 0)
        or (stage == "ended" and answered > 0 and participant.status != "returned")
    )
    if not is_due:
        return {}
    return {"code": recruitment.completion_code, "url": recruitment.completion_url}


def wants_reason(question: Question, participant: Participant) -> bool:
    """Whether this is one of the questions at which the study asks for a reason.

    Counted as drawn, so that it does not change when questions before it are handed on.
    """
    config = config_of(participant.study)
    every = config.design.reason_every
    if every == 0 or question.form.position is None:
        return False
    size = config.design.questions_per_form + config.checks.gold + config.checks.repeated
    return ((question.form.position - 1) * size + question.place + 1) % every == 0
