"""Scores from 1 to 7: a study chooses the number of points of its scale."""

from collections.abc import Sequence

from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    set_highest_score(7)


def downgrade() -> None:
    """Fails if a score is higher than 5: the older table cannot hold it."""
    set_highest_score(5)


def set_highest_score(highest: int) -> None:
    with op.batch_alter_table("responses", reflect_kwargs={"resolve_fks": False}) as batch_op:
        for column in ("score_1", "score_2"):
            name = op.f(f"ck_responses_{column}")
            batch_op.drop_constraint(name, type_="check")
            batch_op.create_check_constraint(name, f"{column} between 1 and {highest}")
