"""The HITs of Mechanical Turk that participants work on."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "worked_hits",
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("assignment_id", sa.String(length=64), nullable=False),
        sa.Column("hit_id", sa.String(length=64), nullable=False),
        sa.Column("submit_to", sa.String(length=40), nullable=False),
        sa.CheckConstraint(
            "submit_to in ('https://www.mturk.com', 'https://workersandbox.mturk.com')",
            name=op.f("ck_worked_hits_submit_to"),
        ),
        sa.ForeignKeyConstraint(
            ["participant_id"],
            ["participants.id"],
            name=op.f("fk_worked_hits_participant_id"),
        ),
        sa.PrimaryKeyConstraint("participant_id", name=op.f("pk_worked_hits")),
    )
    op.create_index(op.f("ix_worked_hits_assignment_id"), "worked_hits", ["assignment_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_worked_hits_assignment_id"), table_name="worked_hits")
    op.drop_table("worked_hits")
