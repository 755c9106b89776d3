"""Indexes with which no request and no removal of rows reads a whole table."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0032"
down_revision: str | None = "0031"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COLUMNS = {
    "ix_checks_repeats_id": ("checks", ["repeats_id"]),
    "ix_pairs_first_id": ("pairs", ["first_id"]),
    "ix_pairs_second_id": ("pairs", ["second_id"]),
    "ix_further_sets_set_id": ("further_sets", ["set_id"]),
    "ix_exported_forms_form_id": ("exported_forms", ["form_id"]),
    "ix_participants_study_id_seen_at": ("participants", ["study_id", "seen_at"]),
    "ix_participants_not_begun": ("participants", ["study_id", "seen_at"]),
    "ix_forms_unassigned": ("forms", ["study_id", "portion", "category"]),
    "ix_questions_reassigned": ("questions", ["form_id"]),
}
CONDITIONS = {
    "ix_participants_not_begun": "consented_at IS NULL",
    "ix_forms_unassigned": "participant_id IS NULL",
    "ix_questions_reassigned": "handed_on",
}
SQLITE_CONDITIONS = CONDITIONS | {"ix_questions_reassigned": "handed_on = 1"}
"""SQLite uses a partial index only for queries with the same words."""


def upgrade() -> None:
    for name, (table, columns) in COLUMNS.items():
        op.create_index(
            name,
            table,
            columns,
            sqlite_where=condition(SQLITE_CONDITIONS, name),
            postgresql_where=condition(CONDITIONS, name),
        )


def condition(conditions: Mapping[str, str], name: str) -> sa.TextClause | None:
    return sa.text(conditions[name]) if name in conditions else None


def downgrade() -> None:
    for name, (table, _) in reversed(COLUMNS.items()):
        op.drop_index(name, table_name=table)
