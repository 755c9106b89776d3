"""Answers to the owner's questions at the end."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "questionnaire_answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answers", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["participant_id"],
            ["participants.id"],
            name=op.f("fk_questionnaire_answers_participant_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questionnaire_answers")),
        sa.UniqueConstraint("participant_id", name=op.f("uq_questionnaire_answers_participant_id")),
    )


def downgrade() -> None:
    op.drop_table("questionnaire_answers")
