"""Drafts of studies, jobs, notes about answers, and shared reports."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0040"
down_revision: str | None = "0039"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "drafts",
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("changed_by", sa.String(length=100), nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=True),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_drafts_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drafts")),
        sa.UniqueConstraint("study_id", name=op.f("uq_drafts_study_id")),
        sa.UniqueConstraint("token", name=op.f("uq_drafts_token")),
    )
    op.create_table(
        "unblindings",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("shown_by", sa.String(length=100), nullable=False),
        sa.Column("shown_at", TIME, nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_unblindings_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_unblindings")),
        sa.UniqueConstraint("study_id", name=op.f("uq_unblindings_study_id")),
    )
    op.create_table(
        "draft_changes",
        sa.Column("draft_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("content_before", sa.JSON(), nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["draft_id"], ["drafts.id"], name=op.f("fk_draft_changes_draft_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_draft_changes")),
        sa.UniqueConstraint(
            "draft_id", "revision", name=op.f("uq_draft_changes_draft_id_revision")
        ),
    )
    op.create_table(
        "jobs",
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=True),
        sa.Column("draft_id", sa.Integer(), nullable=True),
        sa.Column("commands", sa.JSON(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("stop_asked", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.String(length=100), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("not_before", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("alive_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "state in ('waiting', 'running', 'done', 'failed', 'stopped')",
            name=op.f("ck_jobs_state"),
        ),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_jobs_draft_id")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_jobs_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_draft_id"), "jobs", ["draft_id"], unique=False)
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_index(op.f("ix_jobs_study_id"), "jobs", ["study_id"], unique=False)
    op.create_table(
        "shared_reports",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("shared_by", sa.String(length=100), nullable=False),
        sa.Column("shared_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.Column("token_hash", sa.String(length=43), nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shared_reports_job_id")),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_shared_reports_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shared_reports")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_shared_reports_token_hash")),
    )
    op.create_index(
        op.f("ix_shared_reports_study_id"), "shared_reports", ["study_id"], unique=False
    )
    op.create_table(
        "answer_notes",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("written_by", sa.String(length=100), nullable=False),
        sa.Column("written_at", TIME, nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participants.id"], name=op.f("fk_answer_notes_participant_id")
        ),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_answer_notes_question_id")
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_answer_notes_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_answer_notes")),
    )
    op.create_index(
        op.f("ix_answer_notes_participant_id"), "answer_notes", ["participant_id"], unique=False
    )
    op.create_index(
        op.f("ix_answer_notes_question_id"), "answer_notes", ["question_id"], unique=False
    )
    op.create_index(op.f("ix_answer_notes_study_id"), "answer_notes", ["study_id"], unique=False)
    op.create_table(
        "reviewed_answers",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("reviewed_by", sa.String(length=100), nullable=False),
        sa.Column("reviewed_at", TIME, nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_reviewed_answers_question_id")
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_reviewed_answers_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reviewed_answers")),
        sa.UniqueConstraint("question_id", name=op.f("uq_reviewed_answers_question_id")),
    )
    op.create_index(
        op.f("ix_reviewed_answers_study_id"), "reviewed_answers", ["study_id"], unique=False
    )


def downgrade() -> None:
    """Drafts, notes and links to reports are deleted; studies that were drawn from drafts stay."""
    op.drop_table("reviewed_answers")
    op.drop_table("answer_notes")
    op.drop_table("shared_reports")
    op.drop_table("jobs")
    op.drop_table("draft_changes")
    op.drop_table("unblindings")
    op.drop_table("drafts")
