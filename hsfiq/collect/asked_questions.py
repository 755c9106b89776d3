"""The questions of a participant, in order, and the current question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import Select, Update, bindparam, select, update
from sqlalchemy.orm import Session, aliased, joinedload

from hsfiq.collect.participant_row import ParticipantRow
from hsfiq.db.rows import execute, rows_of
from hsfiq.db.source_tables import Image, Query, Triplet
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    FurtherSet,
    Pair,
    Question,
    Response,
    RetrievedImage,
    RetrievedSet,
)
from hsfiq.errors import Forbidden, SetBack

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a participant: a question, or the sum before a question.

    `number` counts the questions from 1; a sum has the number of the question after it. Gold and
    repeated pairs are ordinary questions here. `done` is an answered question or a passed sum;
    `seconds` are the active ones of a question's first answer, None if unknown. `form_position` is
    the form's among those of its participant.
    """

    number: int
    question_id: int
    check_id: int | None
    done: bool
    seconds: float | None = None
    form_position: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """A participant's steps; `current` is the first one not done, None at the end."""

    steps: tuple[Step, ...]
    current: Step | None
    answered: int
    total: int

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Steps:
        steps = tuple(steps)
        questions = [step for step in steps if step.check_id is None]
        return cls(
            steps=steps,
            current=next((step for step in steps if not step.done), None),
            answered=sum(step.done for step in questions),
            total=len(questions),
        )

    def with_answer(self, answered: Step, seconds: float | None) -> Steps:
        """The steps after an answer to this question; a later revision changes nothing."""
        if answered.done:
            return self
        done = replace(answered, done=True, seconds=seconds)
        return Steps.of(done if step is answered else step for step in self.steps)


def steps_of(session: Session, participant: int) -> Steps:
    rows = rows_of(session, _own_questions(), {"participant": participant}).all()
    steps: list[Step] = []
    for number, row in enumerate(rows, start=1):
        question_id, position, answer_id, seconds, check_id, is_passed = row
        if check_id is not None:
            steps.append(Step(number, question_id, check_id, is_passed, None, position))
        steps.append(Step(number, question_id, None, answer_id is not None, seconds, position))
    return Steps.of(steps)


def require_reached(
    session: Session, participant: ParticipantRow, question_id: int
) -> tuple[Steps, Step]:
    """The participant's steps, and this question; `Forbidden` unless they may answer it now.

    Only reached questions have a page, so the database has been set back.
    """
    if participant.consented_at is None:
        raise SetBack("the consent page comes before the first question")
    own = steps_of(session, participant.id)
    for step in own.steps:
        if step.question_id == question_id and step.check_id is None:
            return own, step
        if step is own.current:
            break
    reassigned = (
        select(Question.id)
        .join(Form, Question.form_id == Form.id)
        .where(
            Question.id == question_id, Form.participant_id == participant.id, Question.reassigned
        )
    )
    if session.scalar(reassigned) is not None:
        raise Forbidden(
            "you were away for a while, so this question was given to somebody else; "
            "your answers are saved"
        )
    raise SetBack("this question cannot be answered now")


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """The rules for an answer to a question; `place` is the question's place in its form."""

    id: int
    place: int
    form_position: int | None
    reassigned: bool
    served_at: datetime | None
    has_reference: bool


class Orders(Protocol):
    """The orders that were drawn for a question, of its row or of a part of it."""

    @property
    def swapped(self) -> bool: ...
    @property
    def order_1(self) -> list[int] | None: ...
    @property
    def order_2(self) -> list[int] | None: ...
    @property
    def set_order(self) -> list[int] | None: ...
    @property
    def image_orders(self) -> list[list[int]] | None: ...


def lock_question(session: Session, question_id: int) -> AskedQuestion:
    """Lock and read a question; a concurrent enrolment that reassigns it has ended by then."""
    row = rows_of(session, _locked_question(), {"question": question_id}).one()
    return AskedQuestion(*row)


def asked_question(session: Session, step: Step) -> AskedQuestion:
    """The same without a lock, for a step of a preview: its form has no position yet."""
    row = rows_of(session, _asked_question(), {"question": step.question_id}).one()
    return replace(AskedQuestion(*row), form_position=step.form_position)


def load_question(session: Session, question_id: int) -> Question:
    return session.scalars(_question_as_shown(), {"question": question_id}).one()


def load_first_questions(session: Session, participant: int, most: int) -> dict[int, Question]:
    """A participant's first questions by their keys, as `load_question` loads each of them."""
    values = {"participant": participant, "most": most}
    questions = session.scalars(_first_questions_as_shown(), values).all()
    return {question.id: question for question in questions}


def shown_sets(question: Question) -> tuple[RetrievedSet, ...]:
    """The retrieved sets as this question shows them: set 1, set 2, ..."""
    pair = question.pair
    sets = [retrieved for retrieved in (pair.first, pair.second) if retrieved is not None]
    if question.set_order is not None:
        sets += [further.retrieved for further in pair.further]
    return in_shown_order(question, sets)


def in_shown_order(question: Orders, sets: Sequence[T]) -> tuple[T, ...]:
    """The given values of the sets of a question's pair, in the order shown."""
    if question.set_order is not None:
        return tuple(sets[place] for place in question.set_order)
    return tuple(reversed(sets)) if question.swapped else tuple(sets)


def shown_images(question: Question, side: int) -> list[RetrievedImage]:
    """The images of set 1, 2, ... in the order in which this question shows them."""
    images = shown_sets(question)[side - 1].images
    order = image_orders(question)[side - 1]
    return list(images) if order is None else [images[place] for place in order]


def image_orders(question: Orders) -> Sequence[list[int] | None]:
    """For each set that may be shown, the order of its images; None for the ranked one."""
    if question.set_order is None:
        return question.order_1, question.order_2
    return question.image_orders or [None] * len(question.set_order)


def mark_served(session: Session, question_id: int, now: datetime) -> None:
    """Record when a question was first served."""
    execute(session, _first_served(), {"question": question_id, "now": now})


# Building these statements takes as long as running them, and every submit needs them: cache them.


@cache
def _own_questions() -> Select[int, int | None, int | None, float | None, int | None, bool]:
    """A participant's questions in their order, with the first answers and the sums before them."""
    passed = (
        select(CheckAnswer.id).where(CheckAnswer.check_id == Check.id, CheckAnswer.passed).exists()
    )
    return (
        select(
            *(Question.id, Form.position, Response.id, Response.active_seconds),
            *(Check.id, passed),
        )
        .join(Form, Question.form_id == Form.id)
        .outerjoin(Response, (Response.question_id == Question.id) & (Response.revision == 1))
        # Sums come between forms: the first form has none.
        .outerjoin(
            Check,
            (Check.form_id == Form.id)
            & (Check.place == Question.place)
            & (Check.kind == "arithmetic")
            & (Form.position > 1),
        )
        .where(Form.participant_id == bindparam("participant"), Question.reassigned.is_(False))
        .order_by(Form.position, Question.place)
    )


@cache
def _asked_question() -> Select[int, int, int | None, bool, datetime | None, bool]:
    return (
        select(
            *(Question.id, Question.place, Form.position, Question.reassigned, Question.served_at),
            Triplet.reference_id.is_not(None),
        )
        .join(Form, Question.form_id == Form.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .where(Question.id == bindparam("question"))
    )


@cache
def _locked_question() -> Select[int, int, int | None, bool, datetime | None, bool]:
    return _asked_question().with_for_update(of=Question)


@cache
def _first_served() -> Update:
    return (
        update(Question)
        .where(Question.id == bindparam("question"), Question.served_at.is_(None))
        .values(served_at=bindparam("now"))
    )


@cache
def _question_as_shown() -> Select[Question]:
    return _with_what_is_shown(select(Question).where(Question.id == bindparam("question")))


@cache
def _first_questions_as_shown() -> Select[Question]:
    return _with_what_is_shown(
        select(Question)
        .join(Form, Question.form_id == Form.id)
        .where(Form.participant_id == bindparam("participant"), Question.reassigned.is_(False))
        .order_by(Form.position, Question.place)
        .limit(bindparam("most"))
    )


def _with_what_is_shown(questions: Select[Question]) -> Select[Question]:
    first, second = joinedload(Pair.first), joinedload(Pair.second)
    return questions.options(
        joinedload(Question.pair).options(
            first.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
            second.selectinload(RetrievedSet.images).joinedload(RetrievedImage.image),
            joinedload(Pair.query).joinedload(Query.triplet).joinedload(Triplet.reference),
        )
    )


# Questions as their participants see them, in two statements: every answer needs two questions.
#
# `load_question` loads one question with everything that belongs to it.


@dataclass(frozen=True, slots=True)
class ShownImage:
    """An image's file, its digest, and the token that browsers use."""

    dataset_id: int
    name: str
    token: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question; its sets and their images are in the order in which it shows them.

    `place` is that in its form.
    """

    place: int
    text: str
    reference: ShownImage | None
    sets: tuple[tuple[ShownImage, ...], ...]

    @property
    def images(self) -> list[ShownImage]:
        """Its images, each once; sorted by token so that their order reveals nothing."""
        references = [] if self.reference is None else [self.reference]
        images = {image.token: image for images in (references, *self.sets) for image in images}
        return [images[token] for token in sorted(images)]


def shown_questions(
    session: Session, question_id: int, other_id: int | None = None
) -> dict[int, ShownQuestion]:
    """One or two questions, by database key."""
    ids = {"question": question_id, "other": question_id if other_id is None else other_id}
    rows = rows_of(session, _questions(), ids).all()
    sets = {row.id: sets_of(session, row) for row in rows}
    images = images_of_sets(session, {key for keys in sets.values() for key in keys})
    return {
        row.id: ShownQuestion(
            place=row.place,
            text=row.text or row.query_text,
            reference=(
                ShownImage(row.dataset_id, row.name, row.token, row.sha256)
                if row.token is not None
                else None
            ),
            sets=in_image_order(row, in_shown_order(row, [images[key] for key in sets[row.id]])),
        )
        for row in rows
    }


def sets_of(session: Session, row: Any) -> list[int]:
    """The keys of a question's sets, in the order of its pair."""
    sets = [key for key in (row.first_id, row.second_id) if key is not None]
    if row.set_order is not None:
        further = select(FurtherSet.set_id).where(FurtherSet.pair_id == row.pair_id)
        sets += session.scalars(further.order_by(FurtherSet.place))
    return sets


def in_image_order(
    row: Any, sets: Iterable[Sequence[ShownImage]]
) -> tuple[tuple[ShownImage, ...], ...]:
    """The sets with their images as the question shows them."""
    return tuple(
        tuple(images) if order is None else tuple(images[place] for place in order)
        for images, order in zip(sets, image_orders(row), strict=False)
    )


def images_of_sets(session: Session, sets: Iterable[int]) -> Mapping[int, list[ShownImage]]:
    """The images of retrieved sets, best first."""
    images: dict[int, list[ShownImage]] = defaultdict(list)
    for row in rows_of(session, _images(), {"sets": list(sets)}):
        set_id, dataset_id, name, token, sha256 = row
        images[set_id].append(ShownImage(dataset_id, name, token, sha256))
    return images


@cache
def _questions() -> Select[*tuple[Any, ...]]:
    reference = aliased(Image)
    return (
        select(
            *(Question.id, Question.place, Question.pair_id, Question.text),
            *(Question.swapped, Question.order_1, Question.order_2),
            *(Question.set_order, Question.image_orders),
            *(Pair.first_id, Pair.second_id, Query.text.label("query_text")),
            *(reference.dataset_id, reference.name, reference.token, reference.sha256),
        )
        .join(Pair, Question.pair_id == Pair.id)
        .join(Query, Pair.query_id == Query.id)
        .join(Triplet, Query.triplet_id == Triplet.id)
        .outerjoin(reference, Triplet.reference_id == reference.id)
        .where(Question.id.in_([bindparam("question"), bindparam("other")]))
    )


@cache
def _images() -> Select[int, int, str, str, str | None]:
    return (
        select(RetrievedImage.set_id, Image.dataset_id, Image.name, Image.token, Image.sha256)
        .join(Image, RetrievedImage.image_id == Image.id)
        .where(RetrievedImage.set_id.in_(bindparam("sets", expanding=True)))
        .order_by(RetrievedImage.set_id, RetrievedImage.rank)
    )
