"""Irrelevance flags that were not recorded: null, as for the published answers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    with op.batch_alter_table("responses", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("irrelevant", existing_type=sa.Boolean(), nullable=True)
    op.execute(
        "update responses set irrelevant = null where question_id in ("
        "select questions.id from questions join forms on forms.id = questions.form_id "
        "join studies on studies.id = forms.study_id where studies.origin = 'imported')"
    )


def downgrade() -> None:
    """Unknown flags become false: the older table cannot hold them."""
    op.execute("update responses set irrelevant = false where irrelevant is null")
    with op.batch_alter_table("responses", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("irrelevant", existing_type=sa.Boolean(), nullable=False)
