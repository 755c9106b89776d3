"""Enrolments of the last hour are counted by address."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "enrolments_by_address",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("client", sa.String(length=64), nullable=False),
        sa.Column("enrolled_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_enrolments_by_address_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_enrolments_by_address")),
    )
    with op.batch_alter_table(
        "enrolments_by_address", reflect_kwargs={"resolve_fks": False}
    ) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_enrolments_by_address_study_id"), ["study_id"], unique=False
        )


def downgrade() -> None:
    op.drop_table("enrolments_by_address")
