"""Accounts with roles; the owner's password becomes that of the account `owner`."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

DIGEST_LENGTH = 43
OWNER, SETTING = "owner", "owner_password"

settings = sa.table("settings", sa.column("key", sa.String), sa.column("value", sa.Text))
accounts = sa.table(
    "accounts",
    sa.column("name", sa.String),
    sa.column("role", sa.String),
    sa.column("is_disabled", sa.Boolean),
    sa.column("password", sa.Text),
)


def upgrade() -> None:
    """All logins end."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("link_hash", sa.String(length=DIGEST_LENGTH), nullable=True),
        sa.Column("link_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role in ('owner', 'analyst', 'helper')", name=op.f("ck_accounts_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("link_hash", name=op.f("uq_accounts_link_hash")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
    )
    op.create_table(
        "logins",
        sa.Column("token_hash", sa.String(length=DIGEST_LENGTH), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_logins_account_id")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_logins")),
    )
    op.create_index(op.f("ix_logins_account_id"), "logins", ["account_id"])
    connection = op.get_bind()
    password = connection.scalar(sa.select(settings.c.value).where(settings.c.key == SETTING))
    if password is not None:
        owner = {"name": OWNER, "role": OWNER, "is_disabled": False, "password": password}
        connection.execute(accounts.insert().values(owner))
        connection.execute(settings.delete().where(settings.c.key == SETTING))
    op.drop_table("owner_sessions")


def downgrade() -> None:
    """All accounts but the owner's are lost, and the owner's password unless it is of scrypt."""
    op.create_table(
        "owner_sessions",
        sa.Column("token_hash", sa.String(length=DIGEST_LENGTH), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_owner_sessions")),
    )
    connection = op.get_bind()
    stored = sa.select(accounts.c.password).where(accounts.c.name == OWNER)
    password = connection.scalar(stored)
    if password is not None and password.startswith("scrypt$"):
        connection.execute(settings.insert().values(key=SETTING, value=password))
    op.drop_index(op.f("ix_logins_account_id"), table_name="logins")
    op.drop_table("logins")
    op.drop_table("accounts")
