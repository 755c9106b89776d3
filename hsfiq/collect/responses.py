"""Storing answers: each is a new revision of the question's response; earlier ones remain.

The caller's `Database.writing` block is the transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import LONGEST_REASON, Answer, ImageStates
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.participants import lock_participant, require_active
from hsfiq.collect.steps import require_reached
from hsfiq.db.tables import Participant, Question, Response, Study
from hsfiq.errors import Conflict, Refused
from hsfiq.text import is_storable_text

JUDGEMENT_COLUMNS = ("score_1", "score_2", "preferred", "irrelevant", "reason", "skipped")
"""Columns that must be the same when a submit is repeated; times and images may differ."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A question left without scores because one of its images is missing or does not load."""

    images: ImageStates
    served_at: datetime | None = None
    submitted_at: datetime | None = None

    def __post_init__(self) -> None:
        if not {"missing", "unloaded"} & set(self.images):
            raise Refused("only a question with an image that is not there can be skipped")

    @property
    def reason(self) -> str:
        return "missing-image" if "missing" in self.images else "unloaded-image"


def submit(
    session: Session,
    participant: Participant,
    question_id: int,
    answer: Answer | Skip,
    *,
    expected_revision: int,
    submit_key: str,
) -> Response:
    """Store an answer as the next revision, or return the row of the same submit made before.

    `expected_revision` is the revision that the page shows, 0 for an unanswered question;
    `submit_key` is the browser's random key of this press of Next.

    Raises:
        Forbidden: the participant cannot answer the question now.
        NotOpen: the study takes no answers.
        Conflict: another tab has answered since the page was loaded, or the submit key was used
            for another answer.
        Refused: the study allows no tie, or the reason is too long or cannot be stored.
    """
    lock_participant(session, participant)
    # A concurrent enrolment that reassigns the question locks it, too; then it is marked by now.
    session.execute(select(Question.id).where(Question.id == question_id).with_for_update())
    require_reached(session, participant, question_id)
    latest = latest_response(session, question_id)
    earlier = session.scalars(
        select(Response).where(
            Response.question_id == question_id, Response.submit_key == submit_key
        )
    ).one_or_none()
    require_storable(answer, participant.study)
    response = response_of(answer)
    if earlier is not None:
        if any(getattr(earlier, name) != getattr(response, name) for name in JUDGEMENT_COLUMNS):
            raise Conflict("this submit was used for another answer")
        return earlier
    require_active(participant)
    revision = latest.revision if latest else 0
    if revision != expected_revision:
        raise Conflict("this question was answered elsewhere since the page was loaded")
    response.question_id = question_id
    response.revision = revision + 1
    response.submit_key = submit_key
    response.images = images_seen(answer.images, latest)
    session.add(response)
    if response.submitted_at is not None:
        extend_lease(participant, response.submitted_at)
    session.flush()
    return response


def latest_response(session: Session, question_id: int) -> Response | None:
    return session.scalars(_latest_response(), {"question": question_id}).one_or_none()


@cache  # building the statement takes as long as running it
def _latest_response() -> Select[Response]:
    return (
        select(Response)
        .where(Response.question_id == bindparam("question"))
        .order_by(Response.revision.desc())
        .limit(1)
    )


def require_storable(answer: Answer | Skip, study: Study) -> None:
    if isinstance(answer, Skip):
        return
    if answer.preferred == 0 and not study.ties_allowed:
        raise Refused("this study does not allow ties: one of the two sets must be preferred")
    reason = answer.reason or ""
    if len(reason) > LONGEST_REASON:
        raise Refused(f"the reason is longer than {LONGEST_REASON:,} characters")
    if not is_storable_text(reason):
        raise Refused("the reason has characters that cannot be stored")


def images_seen(images: ImageStates | None, latest: Response | None) -> str | None:
    """The states of the images, with what the participant saw for earlier revisions, as letters.

    If that is unknown, so is whether an image that was not painted now had been painted then.
    """
    if images is None:
        return None
    if latest is None:
        return images.letters
    if latest.images is None:
        return images.letters if images.are_painted else None
    return images.including(ImageStates.from_letters(latest.images)).letters


def response_of(answer: Answer | Skip) -> Response:
    """The row of an answer, not yet added to a session; its key and revision are not set."""
    letters = answer.images.letters if answer.images else None
    if isinstance(answer, Skip):
        return Response(
            irrelevant=False,
            skipped=answer.reason,
            served_at=answer.served_at,
            submitted_at=answer.submitted_at,
            images=letters,
        )
    return Response(
        score_1=answer.score_1,
        score_2=answer.score_2,
        preferred=answer.preferred,
        irrelevant=answer.irrelevant,
        reason=answer.reason or None,
        served_at=answer.times.served_at,
        first_interaction_at=answer.times.first_interaction_at,
        submitted_at=answer.times.submitted_at,
        active_seconds=answer.times.active_seconds,
        images=letters,
    )
