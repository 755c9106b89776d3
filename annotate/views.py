"""The page's views as JSON, built from the database alone.

Views are blind: they hold texts, opaque image tokens and the participant's own answer, but never
the name of a system, an image or a target, nor the key of a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil
from statistics import median

from sqlalchemy import Select, bindparam, func, or_, select
from sqlalchemy.orm import Session

from hsfiq.annotate import practice
from hsfiq.annotate.cookies import Assignment, Signer
from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.texts import blocks, consent_text, guidelines, language_of, texts
from hsfiq.answer_rules import LONGEST_REASON, SHORTEST_REASON
from hsfiq.collect.protocol import (
    CheckView,
    ConsentView,
    DoneView,
    EarlierAnswer,
    FarewellView,
    ImageView,
    Opening,
    PracticeView,
    QuestionView,
    View,
    ViewBase,
)
from hsfiq.collect.responses import latest_response
from hsfiq.collect.stages import Position, asks_reason, completion_of, may_answer
from hsfiq.collect.steps import Step, Steps, load_question, shown_images
from hsfiq.db.tables import (
    Check,
    Form,
    Image,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    RetrievedImage,
    Triplet,
)
from hsfiq.images.faults import Fault
from hsfiq.study.config import config_of
from hsfiq.text import shown

MIN_ANSWERS_FOR_PACE = 3
"""Answers needed before the remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class ViewBuilder:
    images: ImageStore
    signer: Signer

    def opening(self, session: Session, participant: Participant, position: Position) -> Opening:
        study, config = participant.study, config_of(participant.study)
        return {
            "study": {
                "title": study.title,
                "language": config.study.language,
                "guidelines": blocks(guidelines(study)),
                "set_names": list(config.study.set_names),
                "ties_allowed": study.ties_allowed,
                "shortest_reason": SHORTEST_REASON,
                "longest_reason": LONGEST_REASON,
            },
            "texts": texts(config.study.language)["page"],
            "view": self.view(session, participant, position),
        }

    def view(self, session: Session, participant: Participant, position: Position) -> View:
        progress, step = position.progress, position.step
        base: ViewBase = {
            "total": progress.total,
            "answered": progress.answered,
            "back": back_from(position, participant),
        }
        if step is None:
            return self.stage_view(session, participant, position, base)
        if step.check_id is not None:
            return self.check_view(session, participant, position, step, base)
        return self.question_view(session, participant, position, step, base)

    def stage_view(
        self, session: Session, participant: Participant, position: Position, base: ViewBase
    ) -> ConsentView | PracticeView | DoneView | FarewellView:
        stage, progress = position.stage, position.progress
        if stage == "consent":
            return {**base, "step": "consent", "text": blocks(consent_text(participant.study))}
        if stage == "practice":
            return {
                **base,
                "step": "practice",
                "text": texts(language_of(participant.study))["page"]["practice_text"],
                "reference": practice.REFERENCE,
                "sets": practice.SETS,
                "better": practice.BETTER,
                "earlier": None,
                "reason_asked": False,
                "assignment": "practice",
                "next_images": images_of(session, progress.steps[0].question_id),
            }
        due = completion_of(participant, stage, progress.answered)
        if stage == "done":
            minutes, passed_on = totals(session, participant)
            return {**base, "step": "done", "minutes": minutes, "passed_on": passed_on, **due}
        if stage == "asking":
            raise AssertionError("the participant has a question or check to answer")
        return {**base, "step": "farewell", "kind": stage, **due}

    def check_view(
        self,
        session: Session,
        participant: Participant,
        position: Position,
        step: Step,
        base: ViewBase,
    ) -> CheckView:
        check = session.get_one(Check, step.check_id)
        assignment = Assignment("check", check.id)
        return {
            **base,
            "step": "check",
            "number": step.number,
            "minutes_left": minutes_left(session, participant, position.progress),
            "prompt": check.prompt or "",
            "assignment": assignment.signed(self.signer, participant.token),
        }

    def question_view(
        self,
        session: Session,
        participant: Participant,
        position: Position,
        step: Step,
        base: ViewBase,
    ) -> QuestionView:
        question = load_question(session, step.question_id)
        latest = latest_response(session, step.question_id)
        assignment = Assignment("question", question.id, latest.revision if latest else 0)
        query, current = question.pair.query, position.progress.current
        following = position.question_step(step.number + 1)
        return {
            **base,
            "step": "question",
            "number": step.number,
            "minutes_left": minutes_left(session, participant, position.progress),
            "text": shown(question.text or query.text),
            "reference": self.image_view(session, query.triplet.reference),
            "sets": [
                [
                    self.image_view(session, retrieved.image)
                    for retrieved in shown_images(question, side)
                ]
                for side in (1, 2)
            ],
            "earlier": earlier_answer(latest) if latest else None,
            "standing_at": current.number if current else None,
            "reason_asked": asks_reason(question, participant),
            "assignment": assignment.signed(self.signer, participant.token),
            "next_images": images_of(session, following.question_id) if following else [],
        }

    def image_view(self, session: Session, image: Image) -> ImageView:
        is_missing = isinstance(self.images.file_of(session, image), Fault)
        return {"token": image.token, "missing": is_missing}


def back_from(position: Position, participant: Participant) -> int | None:
    """The number of the question that Back leads to, None if there is none to revise."""
    if position.stage not in ("asking", "done") or not may_answer(participant):
        return None
    number = position.step.number if position.step else position.progress.total + 1
    return number - 1 or None


def earlier_answer(response: Response) -> EarlierAnswer:
    return {
        "score_1": response.score_1,
        "score_2": response.score_2,
        "preferred": response.preferred,
        "irrelevant": response.irrelevant,
        "reason": response.reason or "",
    }


def images_of(session: Session, question_id: int) -> list[str]:
    """A question's tokens, loaded in advance; sorted so that their order reveals nothing."""
    return list(session.scalars(_image_tokens(), {"question": question_id}))


@cache
def _image_tokens() -> Select[str]:
    """The statement of `images_of`, cached because building it takes longer than running it."""
    in_sets = (
        select(RetrievedImage.image_id)
        .join(
            Pair,
            or_(Pair.first_id == RetrievedImage.set_id, Pair.second_id == RetrievedImage.set_id),
        )
        .join(Question, Question.pair_id == Pair.id)
        .where(Question.id == bindparam("question"))
    )
    reference = (
        select(Triplet.reference_id)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(Pair, Pair.query_id == Query.id)
        .join(Question, Question.pair_id == Pair.id)
        .where(Question.id == bindparam("question"))
    )
    tokens = select(Image.token).where(or_(Image.id.in_(in_sets), Image.id.in_(reference)))
    return tokens.order_by(Image.token)


def minutes_left(session: Session, participant: Participant, progress: Steps) -> int | None:
    """The minutes left at the participant's own pace, None while the pace is unknown."""
    left = progress.total - progress.answered
    if progress.answered < MIN_ANSWERS_FOR_PACE or left == 0:
        return None
    spent = session.scalars(
        select(Response.active_seconds)
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Form.participant_id == participant.id,
            Response.revision == 1,
            Response.active_seconds.is_not(None),
        )
    ).all()
    pace = [seconds for seconds in spent if seconds is not None]
    if len(pace) < MIN_ANSWERS_FOR_PACE:
        return None
    return max(1, ceil(median(pace) * left / 60))


def totals(session: Session, participant: Participant) -> tuple[int, bool]:
    """Minutes spent, and whether others took over some of the questions."""
    own = (
        select(func.sum(Response.active_seconds))
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == participant.id)
    )
    passed_on = (
        select(func.count(Question.id))
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == participant.id, Question.reassigned)
    )
    return round((session.scalar(own) or 0) / 60), bool(session.scalar(passed_on))
