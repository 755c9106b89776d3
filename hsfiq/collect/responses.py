"""Storing answers: each is a new revision of the question's response; earlier ones remain.

The caller's `Database.writing` block is the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, insert, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from hsfiq.answer_rules import (
    CONFIRMED_DIFFERENCE,
    LONGEST_REASON,
    LOWEST_SCORE,
    Answer,
    ImageStates,
    contradicts,
    require_integer,
)
from hsfiq.collect.answering.counts import count_answer
from hsfiq.collect.leases import extend_lease
from hsfiq.collect.outcomes.check_rule import apply_check_rule
from hsfiq.collect.participants import require_active
from hsfiq.collect.steps import Steps, require_reached
from hsfiq.db.rows import AnyParticipant, AnyStudy, execute
from hsfiq.db.tables import Check, Response
from hsfiq.errors import Conflict, Refused, SetBack
from hsfiq.kinds import Judgement
from hsfiq.study.config import config_of
from hsfiq.text import is_storable_text

JUDGEMENT_COLUMNS = (
    *("score_1", "score_2", "preferred", "confirmed", "judgement", "extra"),
    *("irrelevant", "reason", "skipped"),
)
"""Columns that must be the same when a submit is repeated; times and what was seen may differ."""


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


@dataclass(frozen=True, slots=True)
class Submitted:
    """The revision that was stored, the question's number, and the steps after the answer."""

    revision: int
    number: int
    steps: Steps


def submit(
    session: Session,
    participant: AnyParticipant,
    question_id: int,
    answer: Answer | Judgement | Skip,
    *,
    expected_revision: int,
    submit_key: str,
    text_version: int | None = None,
    language: str | None = None,
) -> Submitted:
    """Store an answer as the next revision, unless the same submit has been stored before.

    The caller has locked the participant, then the question (`lock_participant`, `lock_question`).
    `expected_revision` is the revision that the page shows, 0 for an unanswered question;
    `submit_key` is the browser's random key of this press of Next; `text_version` is the version of
    the study's texts that the page shows, None if it is unknown.
    `language` is that of the page.

    Raises:
        Forbidden: the participant cannot answer the question now; `SetBack` if they could before a
            backup was restored.
        NotOpen: the study takes no answers.
        Conflict: another tab has answered since the page was loaded, or the submit key was used
            for another answer.
        InvalidRecord: a score is higher than the study's scale.
        Refused: the study allows no tie, or the reason is too long or cannot be stored.
    """
    own, step = require_reached(session, participant, question_id)
    revisions = revisions_of(session, question_id) if step.done else []
    require_storable(answer, participant.study)
    values = values_of(answer)
    earlier = next((row for row in revisions if row.submit_key == submit_key), None)
    if earlier is not None:
        if any(getattr(earlier, name) != values[name] for name in JUDGEMENT_COLUMNS):
            raise Conflict("this submit was used for another answer")
        return Submitted(earlier.revision, step.number, own)
    require_active(participant)
    latest = revisions[-1] if revisions else None
    revision = latest.revision if latest else 0
    if revision < expected_revision:
        raise SetBack("the answer that the page shows is not stored any more")
    if revision != expected_revision:
        raise Conflict("this question was answered elsewhere since the page was loaded")
    stored = values | {
        "question_id": question_id,
        "revision": revision + 1,
        "submit_key": submit_key,
        "language": language,
        "images": images_seen(answer.images, latest),
        "text_in_view": text_seen(values["text_in_view"], latest),
        "text_version": text_version,
    }
    is_check = execute(session, _new_response(), {"question": question_id, **stored}).scalar_one()
    if not is_check:
        count_answer(participant, latest, stored)
    submitted_at = values["submitted_at"]
    if submitted_at is not None:
        extend_lease(participant, submitted_at)
    apply_check_rule(session, participant, submitted_at or datetime.now(UTC))
    steps = own.with_answer(step, values["active_seconds"])
    return Submitted(revision + 1, step.number, steps)


@cache
def _new_response() -> ReturningInsert[bool]:
    """Store an answer; return whether its question is a check."""
    check = select(Check.id).where(Check.question_id == bindparam("question")).exists()
    return insert(Response).returning(check)


def revisions_of(session: Session, question_id: int) -> Sequence[Response]:
    """Every revision of the answer to a question, the first one first."""
    return session.scalars(_revisions(), {"question": question_id}).all()


@cache  # building the statements below takes as long as running them
def _revisions() -> Select[Response]:
    own = select(Response).where(Response.question_id == bindparam("question"))
    return own.order_by(Response.revision)


def latest_response(session: Session, question_id: int) -> Response | None:
    return session.scalars(_latest_response(), {"question": question_id}).one_or_none()


@cache
def _latest_response() -> Select[Response]:
    return (
        select(Response)
        .where(Response.question_id == bindparam("question"))
        .order_by(Response.revision.desc())
        .limit(1)
    )


def require_storable(answer: Answer | Judgement | Skip, study: AnyStudy) -> None:
    if isinstance(answer, Skip):
        return
    if isinstance(answer, Answer) != (study.kind == "pair"):
        raise Refused(f"questions of this study are of kind {study.kind}")
    if isinstance(answer, Answer):
        points = config_of(study).wording.points
        for score in (answer.score_1, answer.score_2):
            require_integer("a score", score, LOWEST_SCORE, points)
    if isinstance(answer, Answer) and answer.preferred == 0 and not study.ties_allowed:
        raise Refused("this study does not allow ties: one of the two sets must be preferred")
    if isinstance(answer, Answer):
        require_confirmation(answer, study)
    reason = answer.reason or ""
    if len(reason) > LONGEST_REASON:
        raise Refused(f"the reason is longer than {LONGEST_REASON:,} characters")
    if not is_storable_text(reason):
        raise Refused("the reason has characters that cannot be stored")


def require_confirmation(answer: Answer, study: AnyStudy) -> None:
    """Refuse an answer that is confirmed without need, or needs to be and is not."""
    is_asked = contradicts(
        answer.preferred, answer.score_1, answer.score_2, by=CONFIRMED_DIFFERENCE
    )
    is_asked = is_asked and config_of(study).design.confirm_contradictions
    if is_asked and not answer.confirmed:
        raise Refused(
            f"the preferred set has a score that is {CONFIRMED_DIFFERENCE} or more points lower: "
            "confirm the answer or change it"
        )
    if answer.confirmed and not is_asked:
        raise Refused("confirmed: this answer needs no confirmation")


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


def text_seen(now: bool | None, latest: Response | None) -> bool | None:
    """Whether the whole text was in view before this or an earlier revision; None if unknown."""
    if now is None or latest is None or now:
        return now
    return latest.text_in_view


def response_of(answer: Answer | Judgement | Skip) -> Response:
    """The row of an answer, not yet added to a session; its key and revision are not set."""
    return Response(**values_of(answer))


UNANSWERED = dict.fromkeys(
    (*JUDGEMENT_COLUMNS, "served_at", "first_interaction_at", "submitted_at", "active_seconds")
)


def values_of(answer: Answer | Judgement | Skip) -> dict[str, Any]:
    """The columns that an answer decides."""
    letters = answer.images.letters if answer.images else None
    if isinstance(answer, Skip):
        return UNANSWERED | {
            "irrelevant": False,
            "skipped": answer.reason,
            "served_at": answer.served_at,
            "submitted_at": answer.submitted_at,
            "images": letters,
            "text_in_view": None,
        }
    return UNANSWERED | {
        **given_values(answer),
        "irrelevant": answer.irrelevant,
        "reason": answer.reason or None,
        "extra": None if answer.extra is None else dict(answer.extra),
        "served_at": answer.times.served_at,
        "first_interaction_at": answer.times.first_interaction_at,
        "submitted_at": answer.times.submitted_at,
        "active_seconds": answer.times.active_seconds,
        "images": letters,
        "text_in_view": answer.text_in_view,
    }


def given_values(answer: Answer | Judgement) -> dict[str, Any]:
    """What was judged, by its columns."""
    if isinstance(answer, Judgement):
        return {"judgement": dict(answer.values)}
    return {
        "score_1": answer.score_1,
        "score_2": answer.score_2,
        "preferred": answer.preferred,
        "confirmed": answer.confirmed,
    }
