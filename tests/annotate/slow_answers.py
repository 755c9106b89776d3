"""What an answer should store and show, by objects and loops: slow, and easy to check by reading.

`tests/annotate/test_fast_answers.py` compares the server's answers with it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.cookies import Assignment, read_assignment
from hsfiq.annotate.handlers import Reassigned, Services
from hsfiq.answer_rules import are_painted
from hsfiq.collect.answers import (
    JUDGEMENT_COLUMNS,
    given_answer,
    images_seen,
    require_storable,
    response_of,
)
from hsfiq.collect.asked_questions import AskedQuestion, load_question, shown_images
from hsfiq.collect.checks import apply_check_rule
from hsfiq.collect.participant_row import StudyRow
from hsfiq.collect.participants import require_active
from hsfiq.db.source_tables import Image
from hsfiq.db.tables import Check, Form, Message, MessageRecipient, Participant, Question, Response
from hsfiq.errors import Conflict, Forbidden
from hsfiq.kinds import KINDS
from hsfiq.text import shown
from tests.studies import row_of


def slow_submit(
    session: Session, services: Services, participant_id: int, payload: dict[str, Any]
) -> dict[str, Any]:
    """Store an answer to a pair, and return the reply; a `Refused` if it is not accepted."""
    now, person = datetime.now(UTC), session.get_one(Participant, participant_id)
    study = StudyRow.of(person.study)
    assignment = read_assignment(
        services.signer, person.token_hash, payload["assignment"], "question"
    )
    question = load_question(session, assignment.key)
    if question.reassigned:
        raise Reassigned("this question has been reassigned to another person")
    answer = given_answer(as_asked(question), study, payload, now)  # type: ignore[arg-type]
    own = questions_of(session, person)
    if question not in own or question not in reached(session, own):
        raise Forbidden("this question cannot be answered now")
    require_storable(answer, study)
    revisions, row = revisions_of(session, question), response_of(answer, KINDS["pair"])
    number = own.index(question) + 1
    for earlier in revisions:
        if earlier.submit_key == payload["submit_key"]:
            if any(getattr(earlier, name) != getattr(row, name) for name in JUDGEMENT_COLUMNS):
                raise Conflict("this submit was used for another answer")
            return reply(session, services, person, earlier.revision, number, now)
    require_active(row_of(session, person.id))
    if len(revisions) != assignment.revision:
        raise Conflict("this question was answered in another window after the page was loaded")
    row.question_id, row.revision = question.id, len(revisions) + 1
    row.submit_key, row.language = payload["submit_key"], assignment.language
    row.text_version = assignment.text_version
    row.images = images_seen(answer.images, revisions[-1] if revisions else None)
    session.add(row)
    if person.seen_at is not None:
        person.seen_at = now
    session.flush()
    count_answers(session, person)
    judged = row_of(session, person.id)
    apply_check_rule(session, judged, now)
    person.status = judged.status
    return reply(session, services, person, row.revision, number, now)


def count_answers(session: Session, person: Participant) -> None:
    """Count all answers of a participant again, but those to checks."""
    asked = select(Question).join(Form).where(Form.participant_id == person.id)
    checks = set(session.scalars(select(Check.question_id)))
    revisions = [
        revisions_of(session, question)
        for question in session.scalars(asked)
        if question.id not in checks
    ]
    latest = [own[-1] for own in revisions if own]
    painted = [are_painted(row.images) for row in latest if row.skipped is None]
    person.n_painted, person.n_not_painted = painted.count(True), painted.count(False)
    person.n_painting_unknown = painted.count(None)
    person.n_skipped = len(latest) - len(painted)
    person.n_revisions = sum(row.revision for row in latest)


def as_asked(question: Question) -> AskedQuestion:
    has_reference = question.pair.query.triplet.reference is not None
    position, served_at = question.form.position, question.served_at
    return AskedQuestion(
        question.id, question.place, position, question.reassigned, served_at, has_reference
    )


def questions_of(session: Session, person: Participant) -> list[Question]:
    """The participant's questions in their order."""
    forms = session.scalars(select(Form).where(Form.participant_id == person.id)).all()
    return [
        question
        for form in sorted(forms, key=lambda form: form.position or 0)
        for question in session.scalars(
            select(Question).where(Question.form_id == form.id).order_by(Question.place)
        )
        if not question.reassigned
    ]


def revisions_of(session: Session, question: Question) -> list[Response]:
    rows = select(Response).where(Response.question_id == question.id)
    return list(session.scalars(rows.order_by(Response.revision)))


def reached(session: Session, own: list[Question]) -> list[Question]:
    """The answered questions and the first one that is not, in a form without sums."""
    answered = [question for question in own if revisions_of(session, question)]
    return answered + [question for question in own if question not in answered][:1]


def reply(
    session: Session,
    services: Services,
    person: Participant,
    revision: int,
    number: int,
    now: datetime,
) -> dict[str, Any]:
    """The acknowledgement with the next question, or only the step of a page without one."""
    own = questions_of(session, person)
    is_answered = [bool(revisions_of(session, question)) for question in own]
    if all(is_answered):
        return {"revision": revision, "view": {"step": "done"}}
    if person.study.status != "open" or person.status != "active":
        return {"revision": revision, "view": {"step": "farewell"}}
    current = is_answered.index(False) + 1
    shown_number = number + 1 if number < len(own) and is_answered[number] else current
    question = own[shown_number - 1]
    question.served_at = question.served_at or now
    if person.seen_at is not None:
        person.seen_at = now
    session.flush()
    view = question_view(session, services, person, question) | {
        "number": shown_number,
        "back": shown_number - 1 or None,
        "total": len(own),
        "answered": sum(is_answered),
        "standing_at": current,
        "next_images": addresses_of(session, services, person, own[shown_number:]),
    }
    return {"revision": revision, "view": view}


def question_view(
    session: Session, services: Services, person: Participant, row: Question
) -> dict[str, Any]:
    """What the page shows of a question itself."""
    question = load_question(session, row.id)
    reference, revisions = question.pair.query.triplet.reference, revisions_of(session, row)

    def image_view(image: Image) -> dict[str, Any]:
        return {"token": services.views.address_of(session, person, image), "missing": False}

    assignment = Assignment(
        "question", row.id, len(revisions), person.study.text_version, language="en"
    )
    messages = session.scalars(
        select(Message)
        .join(MessageRecipient, MessageRecipient.message_id == Message.id)
        .where(MessageRecipient.participant_id == person.id, MessageRecipient.seen_at.is_(None))
        .order_by(Message.id)
    )
    return {
        "step": "question",
        "text": shown(question.text or question.pair.query.text),
        "reference": image_view(reference) if reference else None,
        "sets": [[image_view(i.image) for i in shown_images(question, side)] for side in (1, 2)],
        "earlier": earlier_view(revisions[-1]) if revisions else None,
        "assignment": assignment.signed(services.signer, person.token_hash),
        "draft": assignment.draft(services.signer, person.token_hash),
        "text_version": person.study.text_version,
        "language": "en",
        "messages": [{"id": each.id, "text": f"<p>{each.text}</p>\n"} for each in messages],
    }


def addresses_of(
    session: Session, services: Services, person: Participant, rows: list[Question]
) -> list[str]:
    """The addresses of the images of the first of these questions, if there is one."""
    if not rows:
        return []
    question = load_question(session, rows[0].id)
    reference = question.pair.query.triplet.reference
    images = [member.image for side in (1, 2) for member in shown_images(question, side)]
    images += [reference] if reference else []
    return sorted({services.views.address_of(session, person, image) for image in images})


def earlier_view(response: Response) -> dict[str, Any]:
    names = ("score_1", "score_2", "preferred", "confirmed")
    judgement = {name: getattr(response, name) for name in names}
    return {
        "judgement": judgement if response.skipped is None else None,
        "irrelevant": response.irrelevant,
        "reason": response.reason or "",
        "extra": {},
    }
