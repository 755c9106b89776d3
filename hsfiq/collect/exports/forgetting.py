"""Deleting what is recorded of a person in releases."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import ExportedForm, ExportedRelease, Form, Participant


def exports_with(session: Session, participant: Participant) -> Sequence[ExportedRelease]:
    """The recorded releases that have answers of a participant, kept or dropped; oldest first."""
    forms = select(Form.id).where(Form.participant_id == participant.id)
    releases = select(ExportedForm.release_id).where(ExportedForm.form_id.in_(forms))
    return session.scalars(
        select(ExportedRelease).where(ExportedRelease.id.in_(releases)).order_by(ExportedRelease.id)
    ).all()


def forget_exports(session: Session, participant: Participant) -> Sequence[ExportedRelease]:
    """Delete which of a participant's answers are in releases; return these releases."""
    releases = exports_with(session, participant)
    forms = select(Form.id).where(Form.participant_id == participant.id)
    session.execute(delete(ExportedForm).where(ExportedForm.form_id.in_(forms)))
    for release in releases:
        release.n_forgotten += 1
    return releases
