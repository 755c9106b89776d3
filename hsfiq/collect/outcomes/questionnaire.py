"""The questions at the end: who still has to answer them, and storing the answers once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.db.rows import AnyParticipant, AnyStudy
from hsfiq.db.tables import Participant, QuestionnaireAnswers, Study
from hsfiq.study.config import config_of
from hsfiq.study.instrument.extra_questions import read_answers


def asks_at_end(study: AnyStudy) -> bool:
    """Whether participants must answer questions at the end; in a closed study nobody can."""
    return study.status != "closed" and bool(config_of(study).questionnaire.at_end)


def questionnaire_is_due(session: Session, participant: AnyParticipant) -> bool:
    """Whether this participant must still answer the study's questions at the end."""
    return asks_at_end(participant.study) and answers_at_end(session, participant) is None


def have_answered_at_end(session: Session, study: Study) -> set[int]:
    """The participants who have answered the questions at the end, by database key."""
    rows = (
        select(Participant.id)
        .join(QuestionnaireAnswers, QuestionnaireAnswers.participant_id == Participant.id)
        .where(Participant.study_id == study.id)
    )
    return set(session.scalars(rows))


def answers_at_end(session: Session, participant: AnyParticipant) -> dict[str, Any] | None:
    """The answers by the question's name; None before they are given."""
    return session.scalars(
        select(QuestionnaireAnswers.answers).where(
            QuestionnaireAnswers.participant_id == participant.id
        )
    ).one_or_none()


def store_answers(
    session: Session, participant: Participant, given: Mapping[str, Any], now: datetime
) -> None:
    """Store the answers; `Refused` if one is not valid or a required one is missing."""
    questions = config_of(participant.study).questionnaire.at_end
    session.add(
        QuestionnaireAnswers(
            participant_id=participant.id,
            submitted_at=now,
            answers=read_answers(questions, given),
        )
    )
    session.flush()


def answers_by_participant(session: Session, study: Study) -> dict[str, dict[str, Any]]:
    """The answers of all participants of a study, by the participant's name."""
    rows = session.execute(
        select(Participant.name, QuestionnaireAnswers.answers)
        .join(Participant, QuestionnaireAnswers.participant_id == Participant.id)
        .where(Participant.study_id == study.id)
    )
    return dict(row for row in rows)
