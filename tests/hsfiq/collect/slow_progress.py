"""A study's progress counted from its questions and answers alone: slow, and easy to check."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import are_painted
from hsfiq.collect.exports.records import Totals
from hsfiq.collect.progress import StudyProgress, progress_of
from hsfiq.collect.responses import revisions_of
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study


def slow_progress(session: Session, study: Study) -> StudyProgress:
    forms = session.scalars(select(Form).where(Form.study_id == study.id)).all()
    people = session.scalars(select(Participant).where(Participant.study_id == study.id)).all()
    excluded = {person.id for person in people if person.status == "excluded"}
    n_questions, latest = 0, []
    for form in forms:
        for question in session.scalars(select(Question).where(Question.form_id == form.id)):
            checks = select(Check.id).where(Check.question_id == question.id)
            if question.reassigned or session.scalar(checks) is not None:
                continue
            n_questions += 1
            revisions = select(Response).where(Response.question_id == question.id)
            answers = session.scalars(revisions.order_by(Response.revision)).all()
            if answers and form.participant_id not in excluded:
                latest.append(answers[-1])
    skipped = [answer for answer in latest if answer.skipped is not None]
    painted = [are_painted(answer.images) for answer in latest if answer.skipped is None]
    return StudyProgress(
        study=study.name,
        title=study.title,
        status=study.status,
        origin=study.origin,
        forms=len(forms),
        forms_taken=sum(form.participant_id is not None for form in forms),
        participants=len(people),
        questions=n_questions,
        answered=len(latest),
        images_painted=painted.count(True),
        images_not_painted=painted.count(False),
        images_unknown=painted.count(None),
        skipped=len(skipped),
        platform_study_id=study.platform_study_id,
    )


def assert_counts(session: Session, study: Study) -> StudyProgress:
    """The progress, after comparing it with what the rows say."""
    counted = progress_of(session, study)
    assert counted == slow_progress(session, study)
    return counted


def slow_totals(session: Session, study: Study) -> Totals:
    """The same for the answers of everybody, with the sum of their revisions."""
    answers = [
        revisions[-1].revision
        for question in session.scalars(
            select(Question).join(Form).where(Form.study_id == study.id)
        )
        if session.scalar(select(Check.id).where(Check.question_id == question.id)) is None
        and (revisions := revisions_of(session, question.id))
    ]
    return Totals(len(answers), sum(answers))
