"""Which people of a recruitment platform may enrol in a study."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "allowed_people",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("person_hash", sa.String(length=43), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_allowed_people_study_id")
        ),
        sa.PrimaryKeyConstraint("study_id", "person_hash", name=op.f("pk_allowed_people")),
    )


def downgrade() -> None:
    """Lists are lost: after an upgrade, everybody may enrol."""
    op.drop_table("allowed_people")
