"""Counts of answered questions in the rows of participants, and of questions in those of forms."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0034"
down_revision: str | None = "0033"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COUNTS = ("n_painted", "n_not_painted", "n_painting_unknown", "n_skipped", "n_revisions")
PAINTED = "se "
"""The letters of images that were shown or enlarged, and what divides the sets."""

QUESTIONS = sa.text("""
    update forms set n_questions = (
        select count(*) from questions where questions.form_id = forms.id
        and not exists (select 1 from checks where checks.question_id = questions.id)
    )
""")
ANSWERS = sa.text("""
    select forms.participant_id, responses.skipped, responses.images, count(*), sum(responses.revision)
    from forms
    join questions on questions.form_id = forms.id
    join responses on responses.question_id = questions.id
    where forms.participant_id is not null
    and not exists (select 1 from checks where checks.question_id = questions.id)
    and not exists (
        select 1 from responses as later
        where later.question_id = responses.question_id and later.revision > responses.revision
    )
    group by forms.participant_id, responses.skipped, responses.images
""")
participants = sa.table("participants", sa.column("id"), *(sa.column(name) for name in COUNTS))


def upgrade() -> None:
    for name in COUNTS:
        op.add_column("participants", count_column(name))
    op.add_column("forms", count_column("n_questions"))
    connection = op.get_bind()
    connection.execute(QUESTIONS)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for participant, skipped, letters, number, revisions in connection.execute(ANSWERS):
        counts[participant].update({count_of(skipped, letters): number, "n_revisions": revisions})
    if counts:
        connection.execute(
            participants.update()
            .where(participants.c.id == sa.bindparam("participant"))
            .values({name: sa.bindparam(f"new_{name}") for name in COUNTS}),
            [
                {"participant": key, **{f"new_{name}": own[name] for name in COUNTS}}
                for key, own in counts.items()
            ],
        )


def count_column(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False, server_default="0")


def count_of(skipped: str | None, letters: str | None) -> str:
    """The count that an answer belongs to."""
    if skipped is not None:
        return "n_skipped"
    if letters is None:
        return "n_painting_unknown"
    return "n_painted" if set(letters) <= set(PAINTED) else "n_not_painted"


def downgrade() -> None:
    op.drop_column("forms", "n_questions")
    for name in reversed(COUNTS):
        op.drop_column("participants", name)
