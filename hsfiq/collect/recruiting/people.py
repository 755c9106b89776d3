"""Which people of a recruitment platform may enrol: those on the owner's list, if there is one."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from hsfiq.collect.studies import lock_study, require_unfinished
from hsfiq.db.tables import AllowedPerson, Study
from hsfiq.db.types import digest_of
from hsfiq.errors import FileErrors, Forbidden, Refused, UnreadableInput
from hsfiq.readers.files import read_text
from hsfiq.study.config import PLATFORM_ID, config_of

PLATFORMS = ("prolific", "mturk")


class NotInvited(Forbidden):
    """The platform's id is not on the study's list, or its link is not signed."""


def require_on_list(session: Session, study: Study, person: str) -> None:
    """`NotInvited` if the study has a list of people, and this one is not on it."""
    if count_allowed(session, study) and session.get(AllowedPerson, key_of(study, person)) is None:
        raise NotInvited("this id is not on the study's list")


def count_allowed(session: Session, study: Study) -> int:
    """How many people are on the study's list; without any, all are let in."""
    on_list = select(func.count()).where(AllowedPerson.study_id == study.id)
    return session.scalar(on_list) or 0


def allow_people(session: Session, study: Study, people: Collection[str]) -> int:
    """Add people to the list, in a writing transaction; the number who were not on it."""
    locked = lock_study(session, study.id)
    require_platform(locked)
    known = set(
        session.scalars(
            select(AllowedPerson.person_hash).where(AllowedPerson.study_id == locked.id)
        )
    )
    hashes = [digest for digest in dict.fromkeys(map(digest_of, people)) if digest not in known]
    rows = [{"study_id": locked.id, "person_hash": digest} for digest in hashes]
    if rows:
        session.execute(insert(AllowedPerson), rows)
    return len(rows)


def allow_everybody(session: Session, study: Study) -> None:
    """Delete the study's list, in a writing transaction."""
    locked = lock_study(session, study.id)
    require_platform(locked)
    session.execute(delete(AllowedPerson).where(AllowedPerson.study_id == locked.id))


def require_platform(study: Study) -> None:
    require_unfinished(study)
    if config_of(study).recruitment.mode not in PLATFORMS:
        raise Refused(f"study {study.name} does not recruit on a platform, so it has no such ids")


def key_of(study: Study, person: str) -> tuple[int, str]:
    return study.id, digest_of(person)


def read_people(file: Path) -> list[str]:
    """The platform's ids in a file, one on each line.

    Raises:
        FileErrors: some are no ids.
        UnreadableInput: there is none.
    """
    lines = [line.strip() for line in read_text(file).splitlines()]
    wrong = [
        f"{file}: line {number}: {line[:80]!r} is no id of a platform; write one on each line"
        for number, line in enumerate(lines, start=1)
        if line and not PLATFORM_ID.fullmatch(line)
    ]
    if wrong:
        raise FileErrors(wrong)
    people = list(dict.fromkeys(line for line in lines if line))
    if not people:
        raise UnreadableInput(str(file), "holds no id", "write one on each line")
    return people


def require_signable(study: Study) -> None:
    """`Refused` unless each person of the study's platform can have a link of their own."""
    if config_of(study).recruitment.mode != "prolific":
        raise Refused(
            f"study {study.name} does not recruit on Prolific, so it has no signed links; "
            "Mechanical Turk shows all workers the same address"
        )
