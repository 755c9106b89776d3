"""What the page shows, as JSON, built from the database alone.

Blind: a view holds texts, opaque image tokens and the participant's own answer. No name of a
system, an image or a target, and no key of a set, ever enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from annotate.guidelines import blocks
from annotate.shelf import Shelf
from annotate.signing import Assignment, Signer
from hsfiq import store
from hsfiq.errors import Forbidden
from hsfiq.store import Standing, Step
from hsfiq.tables import (
    Check,
    Form,
    Image,
    Pair,
    Participant,
    Query,
    Question,
    Response,
    RetrievedImage,
    Study,
    Triplet,
)
from hsfiq.text import shown

SET_NAMES = ("Shopping Mall 1", "Shopping Mall 2")

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """The step that a participant turns to, with where they stand; None at the end."""

    standing: Standing
    step: Step | None


# ------------------------------------------------------------------------------------ turning pages


def turn_to_current(session: Session, participant: Participant, now: datetime) -> Turn:
    """Turn to the first thing still to do."""
    standing = store.standing(session, participant)
    return served(session, participant, Turn(standing, standing.current), now)


def turn_to(session: Session, participant: Participant, number: int, now: datetime) -> Turn:
    """Turn to the question with this number, if it is answered or the next to answer.

    Raises:
        Forbidden: it lies beyond where the participant stands, or there is none.
    """
    standing = store.standing(session, participant)
    step = question_step(standing, number)
    if step is None or not (step.done or step == standing.current):
        raise Forbidden(f"question {number} cannot be shown now")
    return served(session, participant, Turn(standing, step), now)


def turn_past(session: Session, participant: Participant, question_id: int, now: datetime) -> Turn:
    """Turn to what follows this question: the next one answered earlier, else the current step."""
    standing = store.standing(session, participant)
    here = next(step for step in standing.steps if step.question_id == question_id)
    following = question_step(standing, here.number + 1)
    step = following if following and following.done else standing.current
    return served(session, participant, Turn(standing, step), now)


def served(session: Session, participant: Participant, turn: Turn, now: datetime) -> Turn:
    """Keep that a question is served, where the study lets it be answered."""
    if turn.step and turn.step.check_id is None and participant.study.status == "open":
        store.mark_served(session, turn.step.question_id, now)
    return turn


def question_step(standing: Standing, number: int) -> Step | None:
    """The step of the question with this number."""
    return next((s for s in standing.steps if s.number == number and s.check_id is None), None)


# ------------------------------------------------------------------------------------ views


@dataclass(frozen=True, slots=True)
class Viewer:
    """Builds views: where images lie and how assignments are signed."""

    shelf: Shelf
    signer: Signer

    def opening(self, session: Session, participant: Participant, turn: Turn) -> View:
        """What the page gets when it opens: the study's own texts and the first view."""
        study = participant.study
        return {
            "study": {
                "title": study.title,
                "guidelines": blocks(study.guidelines),
                "set_names": SET_NAMES,
                "ties_allowed": study.ties_allowed,
                "longest_reason": store.LONGEST_REASON,
            },
            "view": self.view(session, participant, turn),
        }

    def view(self, session: Session, participant: Participant, turn: Turn) -> View:
        """What the page shows at this turn."""
        standing, step = turn.standing, turn.step
        common = {
            "total": standing.total,
            "answered": standing.answered,
            "back": back_from(turn),
        }
        if step is None:
            return common | {"step": "done", **totals(session, participant)}
        if participant.study.status != "open":
            return common | {"step": "paused", "closed": participant.study.status == "closed"}
        common |= {"number": step.number}
        if step.check_id is not None:
            return common | self.check_view(session, participant, step.check_id)
        return common | self.question_view(session, participant, turn, step)

    def check_view(self, session: Session, participant: Participant, check_id: int) -> View:
        """The sum that is asked between two forms."""
        assignment = Assignment("check", check_id)
        return {
            "step": "check",
            "prompt": session.get_one(Check, check_id).prompt,
            "assignment": assignment.signed(self.signer, participant.token),
        }

    def question_view(
        self, session: Session, participant: Participant, turn: Turn, step: Step
    ) -> View:
        """A question, with the earlier answer where it has one."""
        question = store.load_question(session, step.question_id)
        latest = store.latest_response(session, step.question_id)
        assignment = Assignment("question", question.id, latest.revision if latest else 0)
        query = question.pair.query
        return {
            "step": "question",
            "text": shown(question.text or query.text),
            "reference": self.image_view(session, query.triplet.reference),
            "sets": [
                [self.image_view(session, retrieved.image) for retrieved in shown_set.images]
                for shown_set in store.shown_sets(question)
            ],
            "earlier": earlier_answer(latest) if latest else None,
            "standing_at": turn.standing.current.number if turn.standing.current else None,
            "assignment": assignment.signed(self.signer, participant.token),
            "next_images": next_images(session, turn.standing, step),
        }

    def image_view(self, session: Session, image: Image) -> View:
        """One image: its token, or that its file is missing."""
        return {"token": image.token, "missing": self.shelf.file(session, image) is None}

    def lacks_images(self, session: Session, question: Question) -> bool:
        """Whether a file of this question is missing, so that it may be skipped."""
        images = [question.pair.query.triplet.reference] + [
            retrieved.image
            for shown_set in store.shown_sets(question)
            for retrieved in shown_set.images
        ]
        return any(self.shelf.file(session, image) is None for image in images)


def back_from(turn: Turn) -> int | None:
    """The number of the question that Back leads to, None at the first."""
    number = turn.step.number if turn.step else turn.standing.total + 1
    return number - 1 or None


def earlier_answer(response: Response) -> View:
    """The answer that counts so far, as the page fills it in."""
    return {
        "score_1": response.score_1,
        "score_2": response.score_2,
        "preferred": response.preferred,
        "irrelevant": response.irrelevant,
        "reason": response.reason or "",
    }


def next_images(session: Session, standing: Standing, step: Step) -> list[str]:
    """The tokens of the following question's images: they are fetched before Next is pressed."""
    following = question_step(standing, step.number + 1)
    if following is None:
        return []
    in_sets = (
        select(RetrievedImage.image_id)
        .join(
            Pair,
            or_(Pair.first_id == RetrievedImage.set_id, Pair.second_id == RetrievedImage.set_id),
        )
        .join(Question, Question.pair_id == Pair.id)
        .where(Question.id == following.question_id)
    )
    reference = (
        select(Triplet.reference_id)
        .join(Query, Query.triplet_id == Triplet.id)
        .join(Pair, Pair.query_id == Query.id)
        .join(Question, Question.pair_id == Pair.id)
        .where(Question.id == following.question_id)
    )
    tokens = select(Image.token).where(or_(Image.id.in_(in_sets), Image.id.in_(reference)))
    return list(session.scalars(tokens.order_by(Image.token)))


def totals(session: Session, participant: Participant) -> View:
    """What the thank-you page says of the work done: minutes spent."""
    spent = session.scalar(
        select(func.sum(Response.active_seconds))
        .join(Question, Response.question_id == Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == participant.id)
    )
    return {"minutes": round((spent or 0) / 60)}


def open_studies(session: Session) -> list[Study]:
    """The studies that anybody may join now."""
    return [study for study in store.studies(session) if study.status == "open"]
