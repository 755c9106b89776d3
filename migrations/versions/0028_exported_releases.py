"""Which answers went into which release."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "exported_releases",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("version", sa.String(length=40), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("filters", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("hsfiq_version", sa.String(length=40), nullable=False),
        sa.Column("n_answers", sa.Integer(), nullable=False),
        sa.Column("n_forgotten", sa.Integer(), nullable=False),
        sa.Column("first_exported_at", TIME, nullable=False),
        sa.Column("last_exported_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_exported_releases_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exported_releases")),
        sa.UniqueConstraint(
            "study_id",
            "kind",
            "version",
            "content_sha256",
            name=op.f("uq_exported_releases_study_id_kind_version_content_sha256"),
        ),
    )
    op.create_table(
        "exported_forms",
        sa.Column("release_id", sa.Integer(), nullable=False),
        sa.Column("form_id", sa.Integer(), nullable=False),
        sa.Column("kept", sa.JSON(), nullable=False),
        sa.Column("dropped", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["release_id"],
            ["exported_releases.id"],
            name=op.f("fk_exported_forms_release_id"),
        ),
        sa.ForeignKeyConstraint(["form_id"], ["forms.id"], name=op.f("fk_exported_forms_form_id")),
        sa.PrimaryKeyConstraint("release_id", "form_id", name=op.f("pk_exported_forms")),
    )


def downgrade() -> None:
    """What was recorded of releases is deleted; the releases stay as they are."""
    op.drop_table("exported_forms")
    op.drop_table("exported_releases")
