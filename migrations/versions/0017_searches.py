"""Searches over several turns with live retrievers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "study_retrievers",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("corpus_name", sa.Text(), nullable=False),
        sa.Column("corpus_size", sa.Integer(), nullable=False),
        sa.Column("corpus_sha256", sa.String(64), nullable=False),
        references("study_retrievers", "study_id", "studies"),
        references("study_retrievers", "system_id", "systems"),
        sa.PrimaryKeyConstraint("study_id", "system_id", name=op.f("pk_study_retrievers")),
    )
    op.create_table(
        "search_items",
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        references("search_items", "pair_id", "pairs"),
        references("search_items", "system_id", "systems"),
        sa.PrimaryKeyConstraint("pair_id", name=op.f("pk_search_items")),
    )
    op.create_table(
        "search_turns",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("submit_key", sa.String(64), nullable=False),
        sa.Column("reference_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("asked_at", TIME, nullable=False),
        sa.Column("pasted", sa.Boolean(), nullable=True),
        sa.Column("first_key_seconds", sa.Double(), nullable=True),
        sa.Column("last_key_seconds", sa.Double(), nullable=True),
        sa.Column("language", sa.String(35), nullable=True),
        sa.Column("text_version", sa.Integer(), nullable=True),
        references("search_turns", "question_id", "questions"),
        references("search_turns", "reference_id", "images"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_search_turns")),
        sa.UniqueConstraint(
            "question_id", "number", name=op.f("uq_search_turns_question_id_number")
        ),
        sa.UniqueConstraint(
            "question_id", "submit_key", name=op.f("uq_search_turns_question_id_submit_key")
        ),
        sa.CheckConstraint("number >= 1", name=op.f("ck_search_turns_number")),
    )
    op.create_table(
        "search_lists",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("listed_at", TIME, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("image_ids", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("scores", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("ties", sa.Integer(), nullable=True),
        sa.Column("system_version", sa.Text(), nullable=False),
        sa.Column("corpus_sha256", sa.String(64), nullable=False),
        references("search_lists", "turn_id", "search_turns"),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_search_lists")),
    )
    op.create_table(
        "search_feedback",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("satisfaction", sa.Integer(), nullable=False),
        sa.Column("nearest", sa.Integer(), nullable=True),
        sa.Column("images", sa.Text(), nullable=False),
        sa.Column("painted_seconds", sa.Double(), nullable=True),
        sa.Column("active_seconds", sa.Double(), nullable=False),
        sa.Column("given_at", TIME, nullable=False),
        references("search_feedback", "turn_id", "search_turns"),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_search_feedback")),
        sa.CheckConstraint(
            "satisfaction between 1 and 5", name=op.f("ck_search_feedback_satisfaction")
        ),
        sa.CheckConstraint("nearest >= 1", name=op.f("ck_search_feedback_nearest")),
    )
    op.create_table(
        "search_endings",
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("submit_key", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(20), nullable=False),
        sa.Column("declared_id", sa.Integer(), nullable=True),
        sa.Column("ended_at", TIME, nullable=False),
        references("search_endings", "question_id", "questions"),
        references("search_endings", "declared_id", "images"),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_search_endings")),
        sa.CheckConstraint(
            "reason in ('declared', 'stopped', 'max-rounds')",
            name=op.f("ck_search_endings_reason"),
        ),
        sa.CheckConstraint(
            "(reason = 'declared') = (declared_id is not null)",
            name=op.f("ck_search_endings_declared"),
        ),
    )
    op.create_table(
        "struck_texts",
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("struck_at", TIME, nullable=False),
        references("struck_texts", "turn_id", "search_turns"),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_struck_texts")),
    )


def references(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    """A foreign key to the `id` of another table."""
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=op.f(f"fk_{table}_{column}"))


def downgrade() -> None:
    for table in (
        *("struck_texts", "search_endings", "search_feedback", "search_lists", "search_turns"),
        *("search_items", "study_retrievers"),
    ):
        op.drop_table(table)
