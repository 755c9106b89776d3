"""What a public leaderboard shows until the next batch of votes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0036"
down_revision: str | None = "0035"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "published_leaderboards",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("last_turn", sa.Integer(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_published_leaderboards_number")),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_published_leaderboards_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_published_leaderboards")),
    )


def downgrade() -> None:
    op.drop_table("published_leaderboards")
