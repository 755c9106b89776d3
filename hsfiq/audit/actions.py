"""The names of the actions that the audit log has."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What somebody did; the part before the dot is what it was done to."""

    STUDY_CREATE = "study.create"
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
    PARTICIPANT_PAUSE = "participant.pause"
    PARTICIPANT_RESUME = "participant.resume"
    PARTICIPANT_EXCLUDE = "participant.exclude"
    PARTICIPANT_RETURN = "participant.return"
    PARTICIPANT_SCREEN_OUT = "participant.screen-out"
    PARTICIPANT_REASSIGN = "participant.reassign"
    PARTICIPANT_FORGET = "participant.forget"
    PARTICIPANT_WITHDRAW = "participant.withdraw"
    PARTICIPANT_RELEASE = "participant.release"
    PARTICIPANT_ALLOW = "participant.allow"
    PARTICIPANT_LINKS = "participant.links"
    PARTICIPANT_PAYOUT = "participant.payout"
    DATA_IMPORT = "data.import"
    DATA_EXPORT = "data.export"
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
