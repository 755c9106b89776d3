"""Irrelevance flags of searches, whose page has none: null instead of false."""

from collections.abc import Sequence

from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "update responses set irrelevant = null where question_id in ("
        "select questions.id from questions join forms on forms.id = questions.form_id "
        "join studies on studies.id = forms.study_id where studies.kind in ('search', 'arena'))"
    )


def downgrade() -> None:
    op.execute(
        "update responses set irrelevant = false where question_id in ("
        "select questions.id from questions join forms on forms.id = questions.form_id "
        "join studies on studies.id = forms.study_id where studies.kind in ('search', 'arena'))"
    )
