"""The history of one question: what was shown to whom, and every revision of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from hsfiq.collect.progress import summary_of
from hsfiq.collect.responses import revisions_of
from hsfiq.collect.steps import load_question, shown_images, shown_sets
from hsfiq.db.search_tables import SearchUpload
from hsfiq.db.tables import (
    Check,
    CheckAnswer,
    Form,
    Participant,
    Question,
    Response,
    RetrievedSet,
    Study,
)
from hsfiq.ids import question_id
from hsfiq.kinds import KINDS
from hsfiq.study.config import config_of
from hsfiq.study.instrument.extra_questions import in_words

SumTry = Row[str | None, str, bool, datetime]
"""An attempt at the sum before a question: `prompt`, `given`, `passed`, `answered_at`."""


@dataclass(frozen=True, slots=True)
class QuestionHistory:
    """A question as shown to its participant; `systems` and `images` are those of sets 1, 2, ...

    `reference_token` and `tokens` are those of the images' files. `judgements` has each revision's
    answer in words, None for pairs and for skipped questions; `extras` has the extra questions with
    their answers. `has_upload`: the participant has uploaded a picture for this search.
    """

    study: str
    question_id: str
    participant: str
    status: str
    query_id: str
    text: str
    reference: str | None
    target: str | None
    systems: tuple[str | None, ...]
    images: tuple[tuple[str, ...], ...]
    reference_token: str | None
    tokens: tuple[tuple[str, ...], ...]
    served_at: datetime | None
    reassigned: bool
    check: str | None
    expected: str | None
    revisions: tuple[Response, ...]
    judgements: tuple[str | None, ...]
    extras: tuple[list[tuple[str, str]], ...]
    sum_tries: Sequence[SumTry]
    has_upload: bool


def question_history(session: Session, study: Study, outside_id: str) -> QuestionHistory | None:
    key = find_question(session, study, outside_id)
    if key is None:
        return None
    question = load_question(session, key)
    check = session.scalars(select(Check).where(Check.question_id == key)).one_or_none()
    query, participant = question.pair.query, question.form.participant
    sets, asked = shown_sets(question), config_of(study).questionnaire.after_each
    reference = query.triplet.reference
    shown = [shown_images(question, side) for side in range(1, len(sets) + 1)]
    revisions = tuple(revisions_of(session, key))
    return QuestionHistory(
        study=study.name,
        question_id=outside_id,
        participant=participant.name if participant else "",
        status=participant.status if participant else "",
        query_id=query.triplet.external_id + query.suffix,
        text=question.text or query.text,
        reference=reference.name if reference else None,
        target=query.triplet.target.name if query.triplet.target else None,
        systems=tuple(map(system_name, sets)),
        images=tuple(tuple(member.image.name for member in images) for images in shown),
        reference_token=reference.token if reference else None,
        tokens=tuple(tuple(member.image.token for member in images) for images in shown),
        served_at=question.served_at,
        reassigned=question.reassigned,
        check=check.kind if check else None,
        expected=right_answer(study, check),
        revisions=revisions,
        judgements=tuple(summary_of(study, response.judgement) for response in revisions),
        extras=tuple(in_words(asked, response.extra) for response in revisions),
        sum_tries=sum_tries(session, question),
        has_upload=session.get(SearchUpload, key) is not None,
    )


def right_answer(study: Study, check: Check | None) -> str | None:
    """What is right at a gold question, in words."""
    gold = KINDS[study.kind].gold
    if check is None or check.expected is None or gold is None:
        return None
    return gold.words(check.expected)


def find_question(session: Session, study: Study, outside_id: str) -> int | None:
    """The key of the question with this outside id; the names in it may contain dots."""
    owner, _, place = outside_id.strip().rpartition(".")
    if not (place.isascii() and place.isdigit()) or len(place) > 9:
        return None
    rows = session.execute(
        select(Question.id, Participant.name, Form.name)
        .join(Form, Question.form_id == Form.id)
        .join(Participant, Form.participant_id == Participant.id)
        .where(
            Form.study_id == study.id,
            Question.place == int(place),
            Participant.name + "." + Form.name == owner,
        )
    )
    wanted = outside_id.strip()
    return next(
        (key for key, name, form in rows if question_id(name, form or "", int(place)) == wanted),
        None,
    )


def system_name(retrieved: RetrievedSet) -> str | None:
    return retrieved.system.name if retrieved.system else None


def sum_tries(session: Session, question: Question) -> Sequence[SumTry]:
    return session.execute(
        select(Check.prompt, CheckAnswer.given, CheckAnswer.passed, CheckAnswer.answered_at)
        .join(CheckAnswer, CheckAnswer.check_id == Check.id)
        .where(
            Check.form_id == question.form_id,
            Check.place == question.place,
            Check.kind == "arithmetic",
        )
        .order_by(CheckAnswer.id)
    ).all()
