"""The platform's study to which a study is bound, and through which a participant came."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("studies", sa.Column("platform_study_id", sa.String(length=64), nullable=True))
    op.create_index(
        op.f("ix_studies_platform_study_id"), "studies", ["platform_study_id"], unique=True
    )
    op.add_column(
        "participants", sa.Column("platform_study_id", sa.String(length=64), nullable=True)
    )


def downgrade() -> None:
    op.drop_column("participants", "platform_study_id")
    op.drop_index(op.f("ix_studies_platform_study_id"), table_name="studies")
    op.drop_column("studies", "platform_study_id")
