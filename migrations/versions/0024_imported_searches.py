"""What a release says of a search that was imported from it; texts that it lacks are null."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "imported_searches",
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("uploaded", sa.Boolean(), nullable=False),
        sa.Column("repeats", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name=op.f("fk_imported_searches_question_id"),
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_imported_searches")),
    )
    with op.batch_alter_table("search_turns", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("text", existing_type=sa.Text(), nullable=True)


def downgrade() -> None:
    """Fails if a text is null: the older table cannot hold it."""
    with op.batch_alter_table("search_turns", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("text", existing_type=sa.Text(), nullable=False)
    op.drop_table("imported_searches")
