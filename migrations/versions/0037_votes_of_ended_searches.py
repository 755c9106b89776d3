"""A public leaderboard counts the votes of searches that have ended, by their responses."""

from collections.abc import Sequence

from alembic import op

revision: str = "0037"
down_revision: str | None = "0036"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# No publication changes at once: only searches that end from now on belong to the next batch.
NEWEST = "UPDATE published_leaderboards SET {0} = (SELECT coalesce(max(id), 0) FROM {1})"


def upgrade() -> None:
    op.execute("ALTER TABLE published_leaderboards RENAME COLUMN last_turn TO last_response")
    op.execute(NEWEST.format("last_response", "responses"))


def downgrade() -> None:
    op.execute("ALTER TABLE published_leaderboards RENAME COLUMN last_response TO last_turn")
    op.execute(NEWEST.format("last_turn", "search_turns"))
