"""The contents of a page at a position, read from the database at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from hsfiq.collect.answers import latest_response
from hsfiq.collect.asked_questions import ShownQuestion, Step, Steps, shown_questions
from hsfiq.collect.leases import next_unassigned_forms
from hsfiq.collect.messages import unread_messages
from hsfiq.collect.participant_row import ParticipantRow, StudyRow
from hsfiq.collect.stages import Position, Stage, has_practice
from hsfiq.db.tables import Check, Form, Question, Response, Study
from hsfiq.db.types import digest_of
from hsfiq.errors import Forbidden, Refused
from hsfiq.kinds import KINDS

# A study as its next participant would see it, with nobody enrolled and nothing stored.
#
# A preview is read in a session that never commits. Its participant is not stored, so no stored
# answer is theirs, and where they are comes with each request.


def stages_before(study: StudyRow) -> tuple[Stage, ...]:
    """The stages before the first question; each is one step of a preview."""
    return ("consent", "practice") if has_practice(study) else ("consent",)


def batch_to_preview(session: Session, study: Study) -> int:
    """The batch of the next participant, or the first one if every form is assigned."""
    forms = next_unassigned_forms(session, study)
    if forms:
        return forms[0].batch
    first = session.scalar(select(func.min(Form.batch)).where(Form.study_id == study.id))
    if first is None:
        raise Refused(f"study {study.name} has no questions to preview")
    return first


@dataclass(frozen=True, slots=True)
class Preview:
    """A participant who is not stored, with the questions."""

    participant: ParticipantRow
    steps: tuple[Step, ...]

    @property
    def last(self) -> int:
        """The number of steps before the closing page."""
        return len(self.before) + len(self.steps) + self.has_questionnaire

    @property
    def before(self) -> tuple[Stage, ...]:
        return stages_before(self.participant.study)

    @property
    def has_questionnaire(self) -> bool:
        return bool(self.participant.study.config.questionnaire.at_end)

    def position(self, reached: int) -> Position:
        """The position after a number of steps."""
        n_done = max(0, reached - len(self.before))
        done, left = self.steps[:n_done], self.steps[n_done:]
        progress = Steps(
            steps=self.steps,
            current=left[0] if left else None,
            answered=sum(step.check_id is None for step in done),
            total=sum(step.check_id is None for step in self.steps),
        )
        if reached < len(self.before):
            return Position(self.before[reached], progress)
        if left:
            return Position("asking", progress, left[0])
        return Position("questionnaire" if reached < self.last else "done", progress)

    def position_at(self, reached: int, number: int) -> Position:
        """The question with this number, which must have been reached, as `Position`."""
        position = self.position(reached)
        step = position.question_step(number)
        if step is None or self.place_of(step) > reached:
            raise Forbidden(f"question {number} cannot be shown now")
        return Position(position.stage, position.progress, step)

    def position_after(self, reached: int, step: Step) -> Position:
        """The question after this one if it was reached before, otherwise the current step."""
        current = self.position(reached)
        following = current.question_step(step.number + 1)
        if current.step is None or following is None or self.place_of(following) >= reached:
            return current
        return Position(current.stage, current.progress, following)

    def place_of(self, step: Step) -> int:
        """The number of steps before this one."""
        return len(self.before) + self.steps.index(step)

    def question(self, question_id: int) -> Step:
        for step in self.steps:
            if step.question_id == question_id and step.check_id is None:
                return step
        raise Forbidden("the preview does not include this question")


def preview_of(session: Session, study: Study, batch: int, language: str | None = None) -> Preview:
    """The preview of a batch in a language, as if its study were open."""
    forms = session.scalars(
        select(Form.id).where(Form.study_id == study.id, Form.batch == batch).order_by(Form.number)
    ).all()
    row = StudyRow.of(study)
    participant = ParticipantRow(
        study=replace(row, status="open"),
        id=0,
        token_hash=token_hash_of(study.id, batch),
        name="",
        source=row.config.recruitment.mode,
        status="active",
        language=language,
    )
    return Preview(participant, tuple(steps_of_forms(session, forms)))


def token_hash_of(study_id: int, batch: int) -> str:
    """The substitute for a token in a preview; the same for all viewers."""
    return digest_of(f"preview of batch {batch} of study {study_id}")


def steps_of_forms(session: Session, forms: Sequence[int]) -> list[Step]:
    """The questions with the sums before them; none is done, as nobody's answers are read."""
    steps: list[Step] = []
    number = 0
    for position, form in enumerate(forms, start=1):
        sums = session.execute(
            select(Check.place, Check.id).where(Check.form_id == form, Check.kind == "arithmetic")
        )
        step = partial(Step, done=False, form_position=position)
        sum_at = {} if position == 1 else {row.place: row.id for row in sums}
        questions = session.execute(
            select(Question.place, Question.id)
            .where(Question.form_id == form)
            .order_by(Question.place)
        )
        for place, question_id in questions:
            number += 1
            if place in sum_at:
                steps.append(step(number, question_id, sum_at[place]))
            steps.append(step(number, question_id, None))
    return steps


@dataclass(frozen=True, slots=True)
class PageParts:
    """The unread messages; the question and the one after it; the answer that is revised."""

    messages: Sequence[Row[int, str]]
    questions: Mapping[int, ShownQuestion]
    latest: Response | None


def page_parts(session: Session, participant: ParticipantRow, position: Position) -> PageParts:
    """The parts of a page; it has no questions at a stage without any, and in a search."""
    messages, step = unread_messages(session, participant), position.step
    if step is None or step.check_id is not None:
        return PageParts(messages, {}, None)
    latest = latest_response(session, step.question_id) if step.done else None
    if KINDS[participant.study.kind].is_live:
        return PageParts(messages, {}, latest)
    following = position.question_step(step.number + 1)
    next_id = following.question_id if following else None
    return PageParts(messages, shown_questions(session, step.question_id, next_id), latest)
