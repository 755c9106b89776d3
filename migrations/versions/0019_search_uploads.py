"""Pictures that participants upload for a search; a turn about one has no image of the dataset."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "search_uploads",
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("submit_key", sa.String(length=64), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("height", sa.Integer(), nullable=False),
        sa.Column("uploaded_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name=op.f("fk_search_uploads_question_id"),
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_search_uploads")),
    )
    with op.batch_alter_table("search_turns", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("reference_id", existing_type=sa.Integer(), nullable=True)


def downgrade() -> None:
    """Fails if a text is about an uploaded picture: the older tables cannot hold it."""
    with op.batch_alter_table("search_turns", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("reference_id", existing_type=sa.Integer(), nullable=False)
    op.drop_table("search_uploads")
