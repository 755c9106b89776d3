"""The stored studies: finding one, and whether it still accepts answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Select, bindparam, select
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study, StudyCreation
from hsfiq.errors import NotOpen, Refused
from hsfiq.study.config import config_of
from hsfiq.text import is_storable_text


class OtherPlatformStudy(Refused):
    """A participant came through a study of the platform that does not belong to this study."""

    status = 409


def list_studies(session: Session) -> Sequence[Study]:
    """The studies, except incomplete ones, which are still being created."""
    unfinished = select(StudyCreation.study_id)
    return session.scalars(
        select(Study).where(Study.id.not_in(unfinished)).order_by(Study.id)
    ).all()


def find_study(session: Session, name: str) -> Study | None:
    if not is_storable_text(name):
        return None
    return session.scalars(select(Study).where(Study.name == name)).one_or_none()


def study_called(session: Session, name: str) -> Study:
    study = find_study(session, name)
    if study is None:
        raise Refused(f"there is no study {name[:80]!r}")
    return study


def lock_study(session: Session, study_id: int) -> Study:
    """Lock and reload a study, so that concurrent enrolments cannot assign the same form."""
    return session.scalars(_locked_study(), {"study": study_id}).one()


@cache  # building it takes as long as running it
def _locked_study() -> Select[Study]:
    locked = select(Study).where(Study.id == bindparam("study")).with_for_update()
    return locked.execution_options(populate_existing=True)


def bind_platform_study(session: Session, study: Study, platform_study_id: str) -> None:
    """Bind a locked study to the platform's study, in place of the one that it was bound to.

    Raises:
        Refused: another study is bound to it.
    """
    bound = platform_study_owner(session, platform_study_id)
    if bound is not None and bound.id != study.id:
        raise Refused(f"study {bound.name} is already bound to {platform_study_id}")
    study.platform_study_id = platform_study_id
    session.flush()


def require_platform_study(session: Session, study: Study, platform_study_id: str) -> None:
    """Compare the study of the platform that somebody comes from with the one that is bound.

    Anybody can invent the id in a link, so only the owner binds a study.

    Raises:
        OtherPlatformStudy: one of them is bound to another.
    """
    bound = platform_study_owner(session, platform_study_id)
    is_free = bound is None and study.platform_study_id is None
    if not is_free and (bound is None or bound.id != study.id):
        raise OtherPlatformStudy("the link is for another study of the platform")


def is_unbound(study: Study) -> bool:
    """Whether a study on Prolific accepts any STUDY_ID because it is not bound."""
    return study.platform_study_id is None and config_of(study).recruitment.mode == "prolific"


def platform_study_owner(session: Session, platform_study_id: str) -> Study | None:
    """The study that is bound to a study of the platform."""
    bound = select(Study).where(Study.platform_study_id == platform_study_id)
    return session.scalars(bound).one_or_none()


def require_open(status: str) -> None:
    if status != "open":
        raise NotOpen(f"this study is {status}")


def is_finished(study: Study) -> bool:
    """Whether the study accepts no more answers: it was imported, or its simulation has ended."""
    is_imported = study.origin == "imported" or study.source_sha256 is not None
    return is_imported or (study.origin == "simulated" and study.status == "closed")


def require_unfinished(study: Study) -> None:
    if is_finished(study):
        raise Refused(f"study {study.name} has {study.origin} answers and cannot accept more")
