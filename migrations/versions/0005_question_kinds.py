"""Question kinds: questions about no, one or more than two sets, and their answers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

PAIRS_ONLY = (
    "(skipped is null and score_1 is not null and score_2 is not null and preferred is not null) "
    "or (skipped is not null and score_1 is null and score_2 is null and preferred is null)"
)
ANY_KIND = (
    "(skipped is null and judgement is null and score_1 is not null and score_2 is not null "
    "and preferred is not null) or ((skipped is null) = (judgement is not null) "
    "and score_1 is null and score_2 is null and preferred is null)"
)


def upgrade() -> None:
    op.add_column(
        "studies",
        sa.Column("kind", sa.String(length=10), server_default="pair", nullable=False),
    )
    with op.batch_alter_table("pairs", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("first_id", existing_type=sa.Integer(), nullable=True)
        batch_op.alter_column("second_id", existing_type=sa.Integer(), nullable=True)
    op.create_table(
        "further_sets",
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("query_id", sa.Integer(), nullable=False),
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("place >= 2", name=op.f("ck_further_sets_place")),
        sa.ForeignKeyConstraint(["pair_id"], ["pairs.id"], name=op.f("fk_further_sets_pair_id")),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name=op.f("fk_further_sets_query_id")
        ),
        sa.ForeignKeyConstraint(
            ["set_id", "query_id"],
            ["retrieved_sets.id", "retrieved_sets.query_id"],
            name=op.f("fk_further_sets_set_id"),
        ),
        sa.PrimaryKeyConstraint("pair_id", "place", name=op.f("pk_further_sets")),
    )
    op.add_column("questions", sa.Column("set_order", sa.JSON(), nullable=True))
    op.add_column("questions", sa.Column("image_orders", sa.JSON(), nullable=True))
    with op.batch_alter_table("responses", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.add_column(sa.Column("judgement", sa.JSON(), nullable=True))
        batch_op.drop_constraint(op.f("ck_responses_whole"), type_="check")
        batch_op.create_check_constraint(op.f("ck_responses_whole"), ANY_KIND)


def downgrade() -> None:
    """Fails if there are questions of other kinds than `pair`: the older tables cannot hold them."""
    with op.batch_alter_table("responses", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_constraint(op.f("ck_responses_whole"), type_="check")
        batch_op.create_check_constraint(op.f("ck_responses_whole"), PAIRS_ONLY)
        batch_op.drop_column("judgement")
    op.drop_column("questions", "image_orders")
    op.drop_column("questions", "set_order")
    op.drop_table("further_sets")
    with op.batch_alter_table("pairs", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column("second_id", existing_type=sa.Integer(), nullable=False)
        batch_op.alter_column("first_id", existing_type=sa.Integer(), nullable=False)
    op.drop_column("studies", "kind")
