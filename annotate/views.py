"""What the page shows, as JSON, built from the database alone.

Blind: a view holds texts, opaque image tokens and the participant's own answer. No name of a
system, an image or a target, and no key of a set, ever enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from math import ceil
from statistics import median

from sqlalchemy import Select, bindparam, func, or_, select
from sqlalchemy.orm import Session

from hsfiq.annotate import practice
from hsfiq.annotate.guidelines import blocks
from hsfiq.annotate.images import Shelf
from hsfiq.annotate.signing import Assignment, Signer
from hsfiq.annotate.stages import Stage, completion, may_answer, stage_of, wants_reason
from hsfiq.annotate.texts import consent_text, guidelines, texts
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
from hsfiq.collect.steps import (
    Step,
    Steps,
    load_question,
    mark_served,
    shown_images,
    shown_sets,
    steps_of,
)
from hsfiq.collect.studies import list_studies
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
    Study,
    Triplet,
)
from hsfiq.errors import Forbidden
from hsfiq.records import LONGEST_REASON, SHORTEST_REASON
from hsfiq.study.config import config_of
from hsfiq.text import shown

ENOUGH_ANSWERS = 3
"""So many answers show a pace by which the time left can be told."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a participant turns to: a stage of the way, and while they are asked, the step."""

    standing: Steps
    stage: Stage
    step: Step | None


# ------------------------------------------------------------------------------------ turning pages


def turn_to_current(session: Session, participant: Participant, now: datetime) -> Turn:
    """Turn to the first thing still to do."""
    standing = steps_of(session, participant)
    stage = stage_of(participant, standing)
    step = standing.current if stage == "asking" else None
    return served(session, Turn(standing, stage, step), now)


def turn_to(session: Session, participant: Participant, number: int, now: datetime) -> Turn:
    """Turn to the question with this number, or to what comes before all questions.

    Raises:
        Forbidden: it lies beyond where the participant stands, or there is none.
    """
    standing = steps_of(session, participant)
    stage = stage_of(participant, standing)
    if stage not in ("asking", "done") or not may_answer(participant):
        return Turn(standing, stage, None)
    step = question_step(standing, number)
    if step is None or not (step.done or step == standing.current):
        raise Forbidden(f"question {number} cannot be shown now")
    return served(session, Turn(standing, stage, step), now)


def turn_past(session: Session, participant: Participant, question_id: int, now: datetime) -> Turn:
    """Turn to what follows this question: the next one answered earlier, else the current step."""
    current = turn_to_current(session, participant, now)
    if current.step is None:
        return current
    steps = current.standing.steps
    here = next((step for step in steps if step.question_id == question_id), current.step)
    following = question_step(current.standing, here.number + 1)
    if following is None or not following.done:
        return current
    return served(session, Turn(current.standing, current.stage, following), now)


def served(session: Session, turn: Turn, now: datetime) -> Turn:
    """Keep that a question is served."""
    if turn.step and turn.step.check_id is None:
        mark_served(session, turn.step.question_id, now)
    return turn


def question_step(standing: Steps, number: int) -> Step | None:
    """The step of the question with this number."""
    return next((s for s in standing.steps if s.number == number and s.check_id is None), None)


# ------------------------------------------------------------------------------------ views


@dataclass(frozen=True, slots=True)
class Viewer:
    """Builds views: where images lie and how assignments are signed."""

    shelf: Shelf
    signer: Signer

    def opening(self, session: Session, participant: Participant, turn: Turn) -> Opening:
        """What the page gets when it opens: the study's own texts and the first view."""
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
            "view": self.view(session, participant, turn),
        }

    def view(self, session: Session, participant: Participant, turn: Turn) -> View:
        """What the page shows at this turn."""
        standing, step = turn.standing, turn.step
        base: ViewBase = {
            "total": standing.total,
            "answered": standing.answered,
            "back": back_from(turn, participant),
        }
        if step is None:
            return self.stage_view(session, participant, turn, base)
        if step.check_id is not None:
            return self.check_view(session, participant, turn, step, base)
        return self.question_view(session, participant, turn, step, base)

    def stage_view(
        self, session: Session, participant: Participant, turn: Turn, base: ViewBase
    ) -> ConsentView | PracticeView | DoneView | FarewellView:
        """What comes before and after the questions."""
        stage, standing = turn.stage, turn.standing
        if stage == "consent":
            return {**base, "step": "consent", "text": blocks(consent_text(participant.study))}
        if stage == "practice":
            first = standing.steps[0]
            return {
                **base,
                "step": "practice",
                "text": texts(config_of(participant.study).study.language)["page"]["practice_text"],
                "reference": practice.REFERENCE,
                "sets": practice.SETS,
                "better": practice.BETTER,
                "earlier": None,
                "reason_asked": False,
                "assignment": "practice",
                "next_images": images_of(session, first.question_id),
            }
        due = completion(participant, stage, standing.answered)
        if stage == "done":
            minutes, passed_on = totals(session, participant)
            return {**base, "step": "done", "minutes": minutes, "passed_on": passed_on, **due}
        if stage == "asking":
            raise AssertionError("the participant has a question or check to answer")
        return {**base, "step": "farewell", "kind": stage, **due}

    def check_view(
        self, session: Session, participant: Participant, turn: Turn, step: Step, base: ViewBase
    ) -> CheckView:
        """The arithmetic check between two forms."""
        check = session.get_one(Check, step.check_id)
        assignment = Assignment("check", check.id)
        return {
            **base,
            "step": "check",
            "number": step.number,
            "minutes_left": minutes_left(session, participant, turn.standing),
            "prompt": check.prompt or "",
            "assignment": assignment.signed(self.signer, participant.token),
        }

    def question_view(
        self, session: Session, participant: Participant, turn: Turn, step: Step, base: ViewBase
    ) -> QuestionView:
        """A question, with the earlier answer where it has one."""
        question = load_question(session, step.question_id)
        latest = latest_response(session, step.question_id)
        assignment = Assignment("question", question.id, latest.revision if latest else 0)
        query = question.pair.query
        return {
            **base,
            "step": "question",
            "number": step.number,
            "minutes_left": minutes_left(session, participant, turn.standing),
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
            "standing_at": turn.standing.current.number if turn.standing.current else None,
            "reason_asked": wants_reason(question, participant),
            "assignment": assignment.signed(self.signer, participant.token),
            "next_images": next_images(session, turn.standing, step),
        }

    def image_view(self, session: Session, image: Image) -> ImageView:
        """One image: its token, or that its file is missing or no image."""
        return {"token": image.token, "missing": self.shelf.picture(session, image) is None}

    def lacks_images(self, session: Session, question: Question) -> bool:
        """Whether a file of this question is missing, so that it may be skipped."""
        images = [question.pair.query.triplet.reference] + [
            retrieved.image for shown_set in shown_sets(question) for retrieved in shown_set.images
        ]
        return any(self.shelf.picture(session, image) is None for image in images)


def back_from(turn: Turn, participant: Participant) -> int | None:
    """The number of the question that Back leads to, None where there is none to revise."""
    if turn.stage not in ("asking", "done") or not may_answer(participant):
        return None
    number = turn.step.number if turn.step else turn.standing.total + 1
    return number - 1 or None


def earlier_answer(response: Response) -> EarlierAnswer:
    """The answer that counts so far, as the page fills it in."""
    return {
        "score_1": response.score_1,
        "score_2": response.score_2,
        "preferred": response.preferred,
        "irrelevant": response.irrelevant,
        "reason": response.reason or "",
    }


def next_images(session: Session, standing: Steps, step: Step) -> list[str]:
    """The tokens of the following question's images: they are fetched before Next is pressed."""
    following = question_step(standing, step.number + 1)
    return images_of(session, following.question_id) if following else []


def images_of(session: Session, question_id: int) -> list[str]:
    """The tokens of a question's images, in an order that tells nothing."""
    return list(session.scalars(_image_tokens(), {"question": question_id}))


@cache
def _image_tokens() -> Select[str]:
    """The statement of `images_of`, built once: that takes longer than running it."""
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


def minutes_left(session: Session, participant: Participant, standing: Steps) -> int | None:
    """The minutes still to go at the participant's own pace, None while that is not known."""
    left = standing.total - standing.answered
    if standing.answered < ENOUGH_ANSWERS or left == 0:
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
    if len(pace) < ENOUGH_ANSWERS:
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
        .where(Form.participant_id == participant.id, Question.handed_on)
    )
    return round((session.scalar(own) or 0) / 60), bool(session.scalar(passed_on))


def open_studies(session: Session) -> list[Study]:
    """The studies that anybody may join now."""
    return [
        study
        for study in list_studies(session)
        if study.status == "open" and config_of(study).recruitment.mode == "open"
    ]
