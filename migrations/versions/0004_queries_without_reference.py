"""A query may have no reference image: text-to-image search."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    set_nullable(True)


def downgrade() -> None:
    set_nullable(False)


def set_nullable(nullable: bool) -> None:
    with op.batch_alter_table("triplets", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("reference_id", existing_type=sa.Integer(), nullable=nullable)
