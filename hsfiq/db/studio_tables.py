"""The tables of the studio: drafts of studies, jobs, notes, shared reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from hsfiq.db.types import KeyedBase, WithToken


class Draft(KeyedBase):
    """A study that is set up in the browser; `study_id` is set once the study has been drawn.

    `token` is the draft's address. `content` is what `hsfiq.drafts.Content` reads; each change adds
    1 to `revision`.
    """

    __tablename__ = "drafts"

    token: Mapped[str] = mapped_column(String(32), unique=True)
    content: Mapped[dict[str, Any]]
    revision: Mapped[int]
    created_by: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime]
    changed_by: Mapped[str] = mapped_column(String(100))
    changed_at: Mapped[datetime]
    study_id: Mapped[int | None] = mapped_column(ForeignKey("studies.id"), unique=True)


class DraftChange(KeyedBase):
    """The content of a draft before a change, so that the change can be undone."""

    __tablename__ = "draft_changes"
    __table_args__ = (UniqueConstraint("draft_id", "revision"),)

    draft_id: Mapped[int] = mapped_column(ForeignKey("drafts.id"))
    revision: Mapped[int]
    content_before: Mapped[dict[str, Any]]


class Job(KeyedBase):
    """Commands that the server runs one after the other, in a process of their own.

    `commands` are the arguments of `hsfiq`. `step` is the number of commands that are done. A job
    waits until `not_before`.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(
            "state in ('waiting', 'running', 'done', 'failed', 'stopped')", name="state"
        ),
    )

    kind: Mapped[str] = mapped_column(String(20))
    about: Mapped[str]
    study_id: Mapped[int | None] = mapped_column(ForeignKey("studies.id"), index=True)
    draft_id: Mapped[int | None] = mapped_column(ForeignKey("drafts.id"), index=True)
    commands: Mapped[list[list[str]]] = mapped_column(JSON)
    step: Mapped[int] = mapped_column(default=0)
    state: Mapped[str] = mapped_column(String(10), index=True)
    stop_asked: Mapped[bool] = mapped_column(default=False)
    created_by: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[datetime]
    not_before: Mapped[datetime]
    started_at: Mapped[datetime | None]
    alive_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    result: Mapped[str | None]
    """The last line that the commands printed: the error, if the job has failed."""


class AnswerNote(KeyedBase):
    """A note about a participant, or about one of the participant's answers."""

    __tablename__ = "answer_notes"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    participant_id: Mapped[int] = mapped_column(ForeignKey("participants.id"), index=True)
    question_id: Mapped[int | None] = mapped_column(ForeignKey("questions.id"), index=True)
    text: Mapped[str]
    written_by: Mapped[str] = mapped_column(String(100))
    written_at: Mapped[datetime]


class ReviewedAnswer(KeyedBase):
    """A flagged or commented answer that was reviewed."""

    __tablename__ = "reviewed_answers"
    __table_args__ = (UniqueConstraint("question_id"),)

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    question_id: Mapped[int] = mapped_column(ForeignKey("questions.id"))
    reviewed_by: Mapped[str] = mapped_column(String(100))
    reviewed_at: Mapped[datetime]


class Unblinding(KeyedBase):
    """The actor and the time of showing results by system before the study was closed."""

    __tablename__ = "unblindings"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), unique=True)
    shown_by: Mapped[str] = mapped_column(String(100))
    shown_at: Mapped[datetime]


class SharedReport(WithToken):
    """A link to a study's report, for people without an account; None in `revoked_at` until then.

    `job_id` names the job whose folder has the report.
    """

    __tablename__ = "shared_reports"

    study_id: Mapped[int] = mapped_column(ForeignKey("studies.id"), index=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    shared_by: Mapped[str] = mapped_column(String(100))
    shared_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
