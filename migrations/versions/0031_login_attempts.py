"""Attempts to log in are counted by all processes and hosts together."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0031"
down_revision: str | None = "0030"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "login_attempts",
        sa.Column("client", sa.String(length=64), nullable=False),
        sa.Column("delay", sa.Double(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("free_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("client", name=op.f("pk_login_attempts")),
    )


def downgrade() -> None:
    op.drop_table("login_attempts")
