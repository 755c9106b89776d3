"""Digests of images' files, and which of the files were found changed."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("images", sa.Column("sha256", sa.String(length=64), nullable=True))
    op.create_table(
        "image_changes",
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_image_changes_image_id")
        ),
        sa.PrimaryKeyConstraint("image_id", name=op.f("pk_image_changes")),
    )


def downgrade() -> None:
    op.drop_table("image_changes")
    with op.batch_alter_table("images", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_column("sha256")
