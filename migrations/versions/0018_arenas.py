"""Searches with two systems side by side: a list for each, and votes between them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

KEYS = {"search_items": "pair_id", "search_lists": "turn_id"}
"""Tables that get a row for each side, and the keys that they had alone."""

SAID = (
    "(satisfaction is not null and preference is null and both_bad is null) or "
    "(satisfaction is null and preference in (1, 2) and not both_bad) or "
    "(satisfaction is null and preference = 0 and both_bad is not null)"
)


def upgrade() -> None:
    for table, key in KEYS.items():
        with op.batch_alter_table(table, reflect_kwargs={"resolve_fks": False}) as batch_op:
            batch_op.add_column(sa.Column("side", sa.Integer(), server_default="1", nullable=False))
            batch_op.drop_constraint(op.f(f"pk_{table}"), type_="primary")
            batch_op.create_primary_key(op.f(f"pk_{table}"), [key, "side"])
            batch_op.create_check_constraint(op.f(f"ck_{table}_side"), "side in (1, 2)")
        with op.batch_alter_table(table, reflect_kwargs={"resolve_fks": False}) as batch_op:
            batch_op.alter_column("side", existing_type=sa.Integer(), server_default=None)
    for table, column in (("search_feedback", "nearest"), ("search_endings", "declared")):
        op.add_column(table, sa.Column(f"{column}_side", sa.Integer(), nullable=True))
    op.execute("update search_feedback set nearest_side = 1 where nearest is not null")
    op.execute("update search_endings set declared_side = 1 where declared_id is not null")
    with op.batch_alter_table("search_feedback", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.add_column(sa.Column("preference", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("both_bad", sa.Boolean(), nullable=True))
        batch_op.alter_column("satisfaction", existing_type=sa.Integer(), nullable=True)
        batch_op.create_check_constraint(
            op.f("ck_search_feedback_nearest_side"), "nearest_side in (1, 2)"
        )
        batch_op.create_check_constraint(
            op.f("ck_search_feedback_nearest_whole"),
            "(nearest is null) = (nearest_side is null)",
        )
        batch_op.create_check_constraint(op.f("ck_search_feedback_said"), SAID)
    with op.batch_alter_table("search_endings", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_check_constraint(
            op.f("ck_search_endings_declared_side"), "declared_side in (1, 2)"
        )
        batch_op.create_check_constraint(
            op.f("ck_search_endings_declared_whole"),
            "(declared_id is null) = (declared_side is null)",
        )


def downgrade() -> None:
    """Fails if a search has two systems: the older tables cannot hold it."""
    with op.batch_alter_table("search_endings", reflect_kwargs={"resolve_fks": False}) as batch_op:
        for name in ("declared_whole", "declared_side"):
            batch_op.drop_constraint(op.f(f"ck_search_endings_{name}"), type_="check")
        batch_op.drop_column("declared_side")
    with op.batch_alter_table("search_feedback", reflect_kwargs={"resolve_fks": False}) as batch_op:
        for name in ("said", "nearest_whole", "nearest_side"):
            batch_op.drop_constraint(op.f(f"ck_search_feedback_{name}"), type_="check")
        batch_op.alter_column("satisfaction", existing_type=sa.Integer(), nullable=False)
        for column in ("both_bad", "preference", "nearest_side"):
            batch_op.drop_column(column)
    for table, key in KEYS.items():
        with op.batch_alter_table(table, reflect_kwargs={"resolve_fks": False}) as batch_op:
            batch_op.drop_constraint(op.f(f"ck_{table}_side"), type_="check")
            batch_op.drop_constraint(op.f(f"pk_{table}"), type_="primary")
            batch_op.create_primary_key(op.f(f"pk_{table}"), [key])
            batch_op.drop_column("side")
