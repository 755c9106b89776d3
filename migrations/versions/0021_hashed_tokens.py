"""Participants' tokens are stored as digests; the owner's logins are stored."""

import base64
import hashlib
from collections.abc import Callable, Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0019"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

DIGEST_LENGTH = 43
ROWS_AT_ONCE = 1000


def digest(token: str) -> str:
    """The digest in URL-safe Base64; a token of its length is one, after a downgrade."""
    if len(token) == DIGEST_LENGTH:
        return token
    return base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).decode().rstrip("=")


def fill(new: str, old: str, convert: Callable[[str], str]) -> None:
    """Set one column of all participants from another."""
    columns = (
        sa.column("id", sa.Integer),
        sa.column("token", sa.Text),
        sa.column("token_hash", sa.Text),
    )
    people = sa.table("participants", *columns)
    connection = op.get_bind()
    values = connection.execute(sa.select(people.c.id, people.c[old])).all()
    statement = (
        people.update()
        .where(people.c.id == sa.bindparam("key"))
        .values({new: sa.bindparam("value")})
    )
    for start in range(0, len(values), ROWS_AT_ONCE):
        rows = values[start : start + ROWS_AT_ONCE]
        connection.execute(
            statement, [{"key": key, "value": convert(value)} for key, value in rows]
        )


def replace(new: str, old: str, new_length: int, convert: Callable[[str], str]) -> None:
    with op.batch_alter_table("participants", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.add_column(sa.Column(new, sa.String(length=new_length), nullable=True))
    fill(new, old, convert)
    with op.batch_alter_table("participants", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.alter_column(new, existing_type=sa.String(length=new_length), nullable=False)
        batch_op.drop_constraint(f"uq_participants_{old}", type_="unique")
        batch_op.drop_column(old)
        batch_op.create_unique_constraint(f"uq_participants_{new}", [new])


def upgrade() -> None:
    replace("token_hash", "token", DIGEST_LENGTH, digest)
    op.create_table(
        "owner_sessions",
        sa.Column("token_hash", sa.String(length=DIGEST_LENGTH), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_owner_sessions")),
    )


def downgrade() -> None:
    """The digests become the tokens: links that were sent are valid again only after an upgrade."""
    op.drop_table("owner_sessions")
    replace("token", "token_hash", 64, str)
