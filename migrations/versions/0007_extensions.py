"""Extensions: forms added to a study after it was drawn."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "extensions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("added", sa.JSON(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_extensions_number")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_extensions_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_extensions")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_extensions_study_id_number")),
    )


def downgrade() -> None:
    op.drop_table("extensions")
