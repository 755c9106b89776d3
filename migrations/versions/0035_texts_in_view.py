"""Whether the whole text of a query was in view before it was answered."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0035"
down_revision: str | None = "0034"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("responses", sa.Column("text_in_view", sa.Boolean(), nullable=True))


def downgrade() -> None:
    op.drop_column("responses", "text_in_view")
