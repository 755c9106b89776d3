"""Studies that are being created, which nobody sees yet."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "study_creations",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("continued_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_study_creations_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", name=op.f("pk_study_creations")),
    )


def downgrade() -> None:
    """What an interrupted creation has left becomes a draft that is named accordingly."""
    op.drop_table("study_creations")
