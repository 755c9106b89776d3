"""Who changed or took out study data."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("study", sa.String(length=80), nullable=True),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=10), nullable=False),
        sa.CheckConstraint("outcome in ('done', 'refused')", name=op.f("ck_audit_entries_outcome")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index(op.f("ix_audit_entries_at"), "audit_entries", ["at"])


def downgrade() -> None:
    """The audit log is deleted: export it before."""
    op.drop_index(op.f("ix_audit_entries_at"), table_name="audit_entries")
    op.drop_table("audit_entries")
