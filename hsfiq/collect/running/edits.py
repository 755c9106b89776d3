"""Editing a study's texts and codes: prepared from what the owner saw, performed under a lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from hsfiq.collect.studies import find_study, lock_study, require_unfinished
from hsfiq.db.tables import Study, TextVersion
from hsfiq.errors import ConfigError, Conflict, Refused
from hsfiq.study.config import StudyConfig, config_of
from hsfiq.study.editing.text_versions import (
    Change,
    changes_between,
    forbidden_changes,
    record_next_version,
    texts_of,
)


class ForbiddenEdit(Refused):
    """Keys differ that may not change; `errors` has one for each."""

    def __init__(self, errors: list[ConfigError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that has not been performed yet; `version_seen` is the version that it replaces."""

    study: str
    version_seen: int | None
    wanted: StudyConfig
    changes: tuple[Change, ...]


def prepare_edit(study: Study, wanted: StudyConfig, version_seen: int | None) -> Edit:
    """Compare the wanted config with the stored one.

    Raises:
        ForbiddenEdit: it changes more than texts and codes.
        Refused: the study was imported, or its simulation has ended.
    """
    require_unfinished(study)
    stored = config_of(study)
    errors = forbidden_changes(stored, wanted)
    if errors:
        raise ForbiddenEdit(errors)
    changes = changes_between(texts_of(stored), texts_of(wanted))
    return Edit(study.name, version_seen, wanted, tuple(changes))


def perform_edit(session: Session, edit: Edit, now: datetime) -> TextVersion:
    """Store an edit in a writing transaction, as a new version.

    Raises:
        Conflict: the texts are no longer those that the owner saw.
    """
    study = find_study(session, edit.study)
    if study is None:
        raise Refused(f"there is no study {edit.study[:80]!r}")
    study = lock_study(session, study.id)
    if study.text_version != edit.version_seen:
        raise Conflict(
            f"the texts of study {study.name} are now version {study.text_version}",
            remedy="look at the new version, then try again",
        )
    prepare_edit(study, edit.wanted, edit.version_seen)  # the rest may have changed since
    return record_next_version(session, study, edit.wanted, now)
