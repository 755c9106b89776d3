"""The roles of accounts, and what each may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    OWNER = "owner"
    ANALYST = "analyst"
    HELPER = "helper"


class Permission(StrEnum):
    """What somebody may do on the dashboard.

    `READ`: answers, figures and previews. `EXPORT`: downloading releases. `RECRUIT`: invitations,
    pausing and resuming. `MANAGE`: everything else, with the accounts.
    """

    READ = "read"
    EXPORT = "export"
    RECRUIT = "recruit"
    MANAGE = "manage"


PERMISSIONS = {
    Role.OWNER: frozenset(Permission),
    Role.ANALYST: frozenset({Permission.READ, Permission.EXPORT}),
    Role.HELPER: frozenset({Permission.RECRUIT}),
}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who has logged in: the account's name, its role now, and its id."""

    name: str
    role: Role
    account_id: int

    def may(self, permission: Permission) -> bool:
        return permission in PERMISSIONS[self.role]
