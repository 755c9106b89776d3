"""What Prolific is told about submissions."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0039"
down_revision: str | None = "0038"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "payments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("submission_id", sa.String(length=64), nullable=True),
        sa.Column("cents", sa.Integer(), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("bulk_id", sa.String(length=64), nullable=True),
        sa.Column("recorded_at", TIME, nullable=False),
        sa.Column("sent_at", TIME, nullable=True),
        sa.Column("confirmed_at", TIME, nullable=True),
        sa.CheckConstraint(
            "kind in ('approve', 'reject', 'screen-out', 'bonus')", name=op.f("ck_payments_kind")
        ),
        sa.CheckConstraint(
            "state in ('recorded', 'sent', 'confirmed')", name=op.f("ck_payments_state")
        ),
        sa.CheckConstraint("cents >= 0", name=op.f("ck_payments_cents")),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participants.id"], name=op.f("fk_payments_participant_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payments")),
        sa.UniqueConstraint("participant_id", "kind", name=op.f("uq_payments_participant_id_kind")),
    )


def downgrade() -> None:
    """What was recorded of payments is deleted; who was paid stays paid."""
    op.drop_table("payments")
