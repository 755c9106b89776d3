"""A study's progress counted from its questions and answers alone: slow, and easy to check."""

from __future__ import annotations

from collections import Counter, defaultdict

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from hsfiq.answer_rules import are_painted
from hsfiq.collect.progress import (
    StudyProgress,
    count_standings,
    participants_of,
    progress_of,
)
from hsfiq.collect.question_history import Totals
from hsfiq.db.tables import Check, Form, Participant, Question, Response, Study

# Made once, and not for each question: that takes longer than everything else here.
OF_STUDY = Form.study_id == bindparam("study")
FORMS = select(Form.participant_id).where(OF_STUDY)
PEOPLE = select(Participant.id, Participant.status).where(
    Participant.study_id == bindparam("study")
)
QUESTIONS = (
    select(Question.id, Question.reassigned, Form.participant_id)
    .join(Form, Question.form_id == Form.id)
    .where(OF_STUDY)
)
CHECKED = select(Check.question_id).join(Form, Check.form_id == Form.id).where(OF_STUDY)
REVISIONS = (
    select(Response.question_id, Response.revision, Response.skipped, Response.images)
    .join(Question, Response.question_id == Question.id)
    .join(Form, Question.form_id == Form.id)
    .where(OF_STUDY)
    .order_by(Response.question_id, Response.revision)
)


def slow_progress(session: Session, study: Study) -> StudyProgress:
    key = {"study": study.id}
    forms = session.scalars(FORMS, key).all()
    people = session.execute(PEOPLE, key).all()
    excluded = {person for person, status in people if status == "excluded"}
    checked = set(session.scalars(CHECKED, key))
    revisions = defaultdict(list)
    for question, _, skipped, images in session.execute(REVISIONS, key):
        revisions[question].append((skipped, images))
    n_questions, latest = 0, []
    for question, reassigned, participant in session.execute(QUESTIONS, key):
        if reassigned or question in checked:
            continue
        n_questions += 1
        if revisions[question] and participant not in excluded:
            latest.append(revisions[question][-1])
    painted = [are_painted(images) for skipped, images in latest if skipped is None]
    return StudyProgress(
        study=study.name,
        title=study.title,
        status=study.status,
        origin=study.origin,
        forms=len(forms),
        forms_taken=sum(participant is not None for participant in forms),
        participants=len(people),
        questions=n_questions,
        answered=len(latest),
        images_painted=painted.count(True),
        images_not_painted=painted.count(False),
        images_unknown=painted.count(None),
        skipped=sum(skipped is not None for skipped, _ in latest),
        platform_study_id=study.platform_study_id,
    )


def slow_standings(session: Session, study: Study) -> dict[str, int]:
    """Every participant's own standing, counted."""
    return Counter(person.standing for person in participants_of(session, study))


def assert_counts(session: Session, study: Study) -> StudyProgress:
    """The progress, after comparing it and the participants' standings with what the rows say."""
    counted = progress_of(session, study)
    assert counted == slow_progress(session, study)
    assert count_standings(session, study) == slow_standings(session, study)
    return counted


def slow_totals(session: Session, study: Study) -> Totals:
    """The same for the answers of everybody, with the sum of their revisions."""
    key = {"study": study.id}
    checked = set(session.scalars(CHECKED, key))
    latest = {question: number for question, number, *_ in session.execute(REVISIONS, key)}
    answers = [number for question, number in latest.items() if question not in checked]
    return Totals(len(answers), sum(answers))
