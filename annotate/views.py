"""The page's views as JSON, built from the database alone.

Views are blind: they hold texts, opaque image tokens and the participant's own answer, but never
the name of a system, an image or a target, nor the key of a set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import ceil
from statistics import median
from typing import Any, Literal, TypedDict

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from hsfiq.annotate import drawn_practice
from hsfiq.annotate.cookies import Assignment, Signer
from hsfiq.annotate.image_copies import ImageStore, StoredImage
from hsfiq.annotate.images import signed_address
from hsfiq.annotate.searches import search_assignment, search_parts, upload_view
from hsfiq.annotate.texts import (
    consent_text,
    drawn_text,
    explanation_of_drawn,
    explanation_of_marked,
    html_of,
    languages_of,
    participant_texts,
)
from hsfiq.answer_rules import LONGEST_REASON, SHORTEST_REASON
from hsfiq.collect.asked_questions import ShownQuestion, Step, Steps, shown_questions
from hsfiq.collect.page import PageParts, page_parts
from hsfiq.collect.participant_row import ParticipantRow, StudyRow
from hsfiq.collect.participants import language_of
from hsfiq.collect.protocol import (
    CheckView,
    ConsentView,
    DoneView,
    EarlierAnswer,
    ExtraQuestionView,
    FarewellView,
    ImageView,
    Opening,
    PracticeView,
    QuestionnaireView,
    QuestionView,
    SearchView,
    View,
    ViewBase,
)
from hsfiq.collect.searches import state_of
from hsfiq.collect.stages import (
    STAGES_WITH_QUESTIONS,
    Position,
    asks_reason,
    completion_of,
    may_answer,
    may_reconsider,
)
from hsfiq.db.tables import Check, Form, Question, Response
from hsfiq.kinds import KINDS
from hsfiq.study.config import expected_at_practice, query_form, rules_of, shows_garments
from hsfiq.study.instrument import ExtraQuestion
from hsfiq.study.languages import direction
from hsfiq.study.practice import practice_pair, sets_of
from hsfiq.study.recruiting import PLATFORMS, Platform
from hsfiq.text import shown

MIN_ANSWERS_FOR_PACE = 3
"""Answers needed before the remaining time is estimated."""


@dataclass(frozen=True, slots=True)
class ViewBuilder:
    images: ImageStore
    signer: Signer

    def opening(self, session: Session, participant: ParticipantRow, position: Position) -> Opening:
        study, config = participant.study, participant.study.config
        texts = participant_texts(session, participant)
        return {
            "study": {
                "title": texts.title,
                "kind": study.kind,
                "points": config.wording.points,
                "levels": config.design.levels,
                "language": texts.language,
                "direction": direction(texts.language),
                "languages": languages_of(config),
                "guidelines": html_of(texts.guidelines),
                "set_names": list(texts.set_names),
                "extra_questions": extra_views(texts.questionnaire.after_each),
                "ties_allowed": study.ties_allowed,
                "confirm_difference": rules_of(config).confirm_difference,
                "shortest_reason": SHORTEST_REASON,
                "longest_reason": LONGEST_REASON,
                "is_preview": False,
                "text_version": study.text_version,
            },
            "texts": texts.page,
            "view": self.view(session, participant, position),
        }

    def view(self, session: Session, participant: ParticipantRow, position: Position) -> View:
        parts = page_parts(session, participant, position)
        return self.view_of_parts(session, participant, position, parts)

    def view_of_parts(
        self, session: Session, participant: ParticipantRow, position: Position, parts: PageParts
    ) -> View:
        """The view of what has been read; the session reads what only some pages need."""
        progress, step = position.progress, position.step
        base: ViewBase = {
            "total": progress.total,
            "answered": progress.answered,
            "back": back_from(position, participant),
            "text_version": participant.study.text_version,
            "language": language_of(participant),
            "messages": [
                {"id": message.id, "text": html_of(message.text)} for message in parts.messages
            ],
        }
        if step is None:
            return self.stage_view(session, participant, position, base)
        if step.check_id is not None:
            return self.check_view(session, participant, position, step, base)
        if KINDS[participant.study.kind].is_live:
            return self.search_view(session, position, step, participant, base, parts)
        return self.question_view(session, participant, position, step, base, parts)

    def stage_view(
        self, session: Session, participant: ParticipantRow, position: Position, base: ViewBase
    ) -> ConsentView | PracticeView | QuestionnaireView | DoneView | FarewellView:
        stage, progress = position.stage, position.progress
        if stage == "consent":
            text = consent_text(session, participant, progress.total)
            return {**base, "step": "consent", "text": html_of(text)}
        if stage == "practice":
            first = progress.steps[0].question_id
            return {
                **base,
                "step": "practice",
                **self.practice_question(session, participant),
                "earlier": None,
                "reason_asked": False,
                "assignment": "practice",
                "draft": "practice",
                "next_images": self.addresses_of(
                    session, participant, shown_questions(session, first)[first]
                ),
            }
        if stage == "questionnaire":
            asked = participant_texts(session, participant).questionnaire
            assignment = Assignment("questionnaire", participant.id)
            return {
                **base,
                "step": "questionnaire",
                "note": asked.note,
                "questions": extra_views(asked.at_end),
                "assignment": assignment.signed(self.signer, participant.token_hash),
                "draft": assignment.draft(self.signer, participant.token_hash),
            }
        due = completion_of(session, participant, stage, progress.answered)
        if stage == "done":
            minutes, passed_on = totals(session, participant)
            return {**base, "step": "done", "minutes": minutes, "passed_on": passed_on, **due}
        if stage == "asking":
            raise AssertionError("the participant has a question or check to answer")
        reconsidering = stage == "declined" and may_reconsider(
            session, participant, datetime.now(UTC)
        )
        return {
            **base,
            "step": "farewell",
            "kind": stage,
            "may_reconsider": reconsidering,
            **due,
        }

    def check_view(
        self,
        session: Session,
        participant: ParticipantRow,
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
            "minutes_left": minutes_left(position.progress),
            "prompt": check.prompt or "",
            "assignment": assignment.signed(self.signer, participant.token_hash),
        }

    def question_view(
        self,
        session: Session,
        participant: ParticipantRow,
        position: Position,
        step: Step,
        base: ViewBase,
        parts: PageParts,
    ) -> QuestionView:
        config = participant.study.config
        following = position.question_step(step.number + 1)
        question, latest = parts.questions[step.question_id], parts.latest
        assignment = Assignment(
            "question",
            step.question_id,
            latest.revision if latest else 0,
            base["text_version"],
            language=base["language"],
        )
        reference, current = question.reference, position.progress.current
        show = partial(self.image_view, session, participant)
        return {
            **base,
            "step": "question",
            "number": step.number,
            "minutes_left": minutes_left(position.progress),
            "text": shown(question.text),
            "reference": show(reference) if reference else None,
            "sets": [[show(image) for image in images] for images in question.sets],
            "earlier": earlier_answer(latest, participant.study) if latest else None,
            "standing_at": current.number if current else None,
            "reason_asked": asks_reason(config, step.form_position, question.place),
            "assignment": assignment.signed(self.signer, participant.token_hash),
            "draft": assignment.draft(self.signer, participant.token_hash),
            "next_images": (
                self.addresses_of(session, participant, parts.questions[following.question_id])
                if following
                else []
            ),
        }

    def search_view(
        self,
        session: Session,
        position: Position,
        step: Step,
        participant: ParticipantRow,
        base: ViewBase,
        parts: PageParts,
    ) -> SearchView:
        state, current = state_of(session, step.question_id), position.progress.current
        latest = parts.latest
        assignment = replace(
            search_assignment(state, latest.revision if latest else 0),
            text_version=base["text_version"],
            language=base["language"],
        )
        searching = search_parts(
            session,
            state,
            partial(self.image_view, session, participant),
            upload_view(state, self.signer, participant),
        )
        return {
            **base,
            **searching,
            "step": "search",
            "number": step.number,
            "minutes_left": minutes_left(position.progress),
            "standing_at": current.number if current else None,
            "is_unavailable": False,
            "earlier": earlier_answer(latest, participant.study) if latest else None,
            "assignment": assignment.signed(self.signer, participant.token_hash),
            "draft": assignment.draft(self.signer, participant.token_hash),
        }

    def practice_question(self, session: Session, participant: ParticipantRow) -> PracticeParts:
        """The question that the owner has marked, or the drawn one."""
        pair = practice_pair(session, participant.study.id)
        if pair is None:
            return standard_practice(session, participant)
        config, reference = participant.study.config, pair.query.triplet.reference
        texts = participant_texts(session, participant)
        show = partial(self.image_view, session, participant)
        expected = expected_at_practice(config)
        return {
            "text": shown(pair.query.text),
            "reference": show(reference) if reference else None,
            "sets": [
                [show(member.image) for member in retrieved.images] for retrieved in sets_of(pair)
            ],
            "expected": expected,
            "explanation": explanation_of_marked(texts, expected),
        }

    def image_view(
        self, session: Session, participant: ParticipantRow, image: StoredImage
    ) -> ImageView:
        is_missing = self.images.is_missing(session, image)
        return {"token": self.address_of(session, participant, image), "missing": is_missing}

    def address_of(self, session: Session, participant: ParticipantRow, image: StoredImage) -> str:
        digest = self.images.digest_of(session, image)
        return signed_address(self.signer, participant.token_hash, image.token, digest)

    def addresses_of(
        self, session: Session, participant: ParticipantRow, question: ShownQuestion
    ) -> list[str]:
        return [self.address_of(session, participant, image) for image in question.images]


def payment_of(participant: ParticipantRow) -> Platform | Literal["code"] | None:
    """Where a participant is paid, as far as the study knows."""
    for platform in PLATFORMS:
        if participant.source == platform:
            return platform
    return "code" if participant.study.config.recruitment.completion_code else None


class PracticeParts(TypedDict):
    """The part of a `PracticeView` that depends on the study."""

    text: str
    reference: ImageView | None
    sets: list[list[ImageView]]
    expected: dict[str, Any]
    explanation: list[str]


def standard_practice(session: Session, participant: ParticipantRow) -> PracticeParts:
    """The practice question with drawn images, in the form of the study's queries."""
    study, texts = participant.study, participant_texts(session, participant)
    form, config = query_form(session, study.id), study.config
    rules, better = rules_of(config), drawn_practice.BETTER[form]
    text = "" if form == "image" else drawn_text(texts, config)
    images = drawn_practice.GARMENTS if shows_garments(config) else drawn_practice.SHAPES
    places = drawn_practice.places_of(form, rules.n_sets, participant.token_hash)
    return {
        "text": text,
        "reference": None if form == "text" else images.reference,
        "sets": drawn_practice.sets_of(images, places, rules.k),
        "expected": drawn_practice.expected_of(
            KINDS[config.design.kind], rules, places.get(better, 1)
        ),
        "explanation": explanation_of_drawn(texts, text, places, better),
    }


def back_from(position: Position, participant: ParticipantRow) -> int | None:
    """The number of the question that Back leads to, None if there is none to revise."""
    if position.stage not in STAGES_WITH_QUESTIONS or not may_answer(participant):
        return None
    number = position.step.number if position.step else position.progress.total + 1
    return number - 1 or None


def earlier_answer(response: Response, study: StudyRow) -> EarlierAnswer:
    kind = KINDS[study.kind]
    return {
        "judgement": kind.judgement_in([getattr(response, name) for name in kind.stored_in]),
        "irrelevant": bool(response.irrelevant),
        "reason": response.reason or "",
        "extra": response.extra or {},
    }


def extra_views(questions: Iterable[ExtraQuestion]) -> list[ExtraQuestionView]:
    return [
        {
            "name": question.name,
            "type": question.type,
            "text": question.text,
            "options": list(question.options),
            "required": question.required,
            "min": question.bounds[0],
            "max": question.bounds[1],
            "other": question.other,
        }
        for question in questions
    ]


def minutes_left(progress: Steps) -> int | None:
    """The minutes left at the participant's own pace, None while the pace is unknown."""
    left = progress.total - progress.answered
    pace = [step.seconds for step in progress.steps if step.seconds is not None]
    if len(pace) < MIN_ANSWERS_FOR_PACE or left == 0:
        return None
    return max(1, ceil(median(pace) * left / 60))


def totals(session: Session, participant: ParticipantRow) -> tuple[int, bool]:
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
