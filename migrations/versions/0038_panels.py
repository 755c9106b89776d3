"""People whom a panel sends, and the id of their visit."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0038"
down_revision: str | None = "0037"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

SOURCES = ("open", "invitation", "prolific", "mturk", "panel", "imported")


def upgrade() -> None:
    op.add_column(
        "participants", sa.Column("platform_session_id", sa.String(length=64), nullable=True)
    )
    set_sources(SOURCES)


def downgrade() -> None:
    """Fails if somebody has come from a panel: the older table cannot hold them."""
    set_sources([source for source in SOURCES if source != "panel"])
    op.drop_column("participants", "platform_session_id")


def set_sources(sources: Sequence[str]) -> None:
    name, listed = op.f("ck_participants_source"), ", ".join(map(repr, sources))
    with op.batch_alter_table("participants", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_constraint(name, type_="check")
        batch_op.create_check_constraint(name, f"source in ({listed})")
