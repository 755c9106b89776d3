"""The language of a participant, and of the page on which a response was given."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("participants", sa.Column("language", sa.String(length=35), nullable=True))
    op.add_column("responses", sa.Column("language", sa.String(length=35), nullable=True))


def downgrade() -> None:
    op.drop_column("responses", "language")
    op.drop_column("participants", "language")
