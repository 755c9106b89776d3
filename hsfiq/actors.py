"""Actors, their roles, and the names of actions in the audit log."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from enum import StrEnum

# The roles of accounts, and what each may do.


class Role(StrEnum):
    OWNER = "owner"
    ANALYST = "analyst"
    HELPER = "helper"


class Permission(StrEnum):
    """The permissions in the studio.

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


# The names of the actions that the audit log has.


class Action(StrEnum):
    """An action; the part before the dot is its object."""

    DRAFT_CREATE = "draft.create"
    DRAFT_DELETE = "draft.delete"
    STUDY_CREATE = "study.create"
    STUDY_DELETE = "study.delete"
    STUDY_OPEN = "study.open"
    STUDY_PAUSE = "study.pause"
    STUDY_CLOSE = "study.close"
    STUDY_EDIT = "study.edit"
    STUDY_EXTEND = "study.extend"
    STUDY_QUOTA = "study.quota"
    STUDY_ENROLMENT = "study.enrolment"
    STUDY_BIND = "study.bind"
    STUDY_INVITE = "study.invite"
    STUDY_MESSAGE = "study.message"
    STUDY_PREVIEW = "study.preview"
    STUDY_STRIKE = "study.strike"
    STUDY_UNBLIND = "study.unblind"
    PARTICIPANT_PAUSE = "participant.pause"
    PARTICIPANT_RESUME = "participant.resume"
    PARTICIPANT_EXCLUDE = "participant.exclude"
    PARTICIPANT_RETURN = "participant.return"
    PARTICIPANT_SCREEN_OUT = "participant.screen-out"
    PARTICIPANT_REASSIGN = "participant.reassign"
    PARTICIPANT_FORGET = "participant.forget"
    PARTICIPANT_WITHDRAW = "participant.withdraw"
    PARTICIPANT_NOTE = "participant.note"
    PARTICIPANT_REVIEW = "participant.review"
    PARTICIPANT_RELEASE = "participant.release"
    PARTICIPANT_ALLOW = "participant.allow"
    PARTICIPANT_LINKS = "participant.links"
    PARTICIPANT_DECIDE = "participant.decide"
    PARTICIPANT_PAYOUT = "participant.payout"
    PROLIFIC_DRAFT = "prolific.draft"
    PROLIFIC_PUBLISH = "prolific.publish"
    PROLIFIC_PAUSE = "prolific.pause"
    PROLIFIC_APPROVE = "prolific.approve"
    PROLIFIC_REJECT = "prolific.reject"
    PROLIFIC_SCREEN_OUT = "prolific.screen-out"
    PROLIFIC_BONUS = "prolific.bonus"
    DATA_IMPORT = "data.import"
    DATA_EXPORT = "data.export"
    REPORT_SHARE = "report.share"
    REPORT_REVOKE = "report.revoke"
    IMAGES_ACCEPT = "images.accept"
    ACCOUNT_INVITE = "account.invite"
    ACCOUNT_RESET = "account.reset"
    ACCOUNT_DISABLE = "account.disable"
    ACCOUNT_ROLE = "account.role"
    LOGIN = "login"
    LOGOUT = "logout"
    PASSWORD_SET = "password.set"  # noqa: S105 -- the name of an action
    SECRET_CREATE = "secret.create"  # noqa: S105
    SECRET_ROTATE = "secret.rotate"  # noqa: S105
    DB_UPGRADE = "db.upgrade"
    DB_BACKUP = "db.backup"
    DB_RESTORE = "db.restore"
    DB_COPY = "db.copy"
    AUDIT_EXPORT = "audit.export"
    AUDIT_PRUNE = "audit.prune"


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"


# Who acts: the owner in the studio, or a user of the computer on the command line.


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor's name in the audit log."""

    name: str


OWNER = Actor("owner")
NOBODY = Actor("not logged in")


def command_line() -> Actor:
    """The user of this process, or the number of a user without a name, as in a container.

    In a job of the server, the account that started it.
    """
    if account := os.environ.get("HSFIQ_JOB_ACTOR"):
        return Actor(account)
    return Actor(f"command line: {user_name()}")


def user_name() -> str:
    if os.name != "posix":
        return getpass.getuser()
    import pwd  # noqa: PLC0415 -- only on POSIX

    # getpass.getuser believes the environment.
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"
    return name.encode("utf-8", "backslashreplace").decode()
