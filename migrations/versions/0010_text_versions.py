"""Versions of a study's texts, and the version under which each answer was given."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "text_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("texts", sa.JSON(), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_text_versions_number")),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_text_versions_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_text_versions")),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_text_versions_study_id_number")),
    )
    op.add_column("studies", sa.Column("text_version", sa.Integer(), nullable=True))
    op.add_column("responses", sa.Column("text_version", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("responses", "text_version")
    op.drop_column("studies", "text_version")
    op.drop_table("text_versions")
