"""Recording a release in the database that it was exported from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, cast

from sqlalchemy import Table, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import hsfiq
from hsfiq.actors import Action, Actor
from hsfiq.audit import record
from hsfiq.collect.studies import lock_study
from hsfiq.db.engine import Database, added
from hsfiq.db.failures import reason_not_written
from hsfiq.db.tables import ExportedForm, ExportedRelease, Form, Participant, Study
from hsfiq.errors import Unavailable
from hsfiq.releases.content import Release, Source
from hsfiq.releases.folder import Outcome
from hsfiq.releases.recording.answers import FormName

ROWS_AT_ONCE = 5_000


@dataclass(slots=True)
class Recorder:
    """Records releases, each as soon as it is in its folder; called by `export_releases`.

    The audit log has `actor` as the one who exported them.
    `unrecorded` has the names of those that could not be recorded, `reason` why; `forgotten` the
    participants whose data were deleted while a release with their answers was written.
    """

    database: Database
    actor: Actor
    unrecorded: list[str] = field(default_factory=list)
    reason: str = ""
    forgotten: dict[str, list[str]] = field(default_factory=dict)

    def __call__(self, source: Source, outcome: Outcome) -> None:
        try:
            forgotten = record_release(self.database, source, outcome, self.actor)
        except (Unavailable, DBAPIError) as error:
            reason = reason_not_written(error)
            if reason is None:
                raise
            self.unrecorded.append(source.name)
            self.reason = reason
        else:
            if forgotten:
                self.forgotten[str(outcome.folder)] = forgotten

    def notes(self) -> list[str]:
        notes = [
            f"{folder} has answers of {', '.join(names)}, whose data were deleted while it was "
            "written: export again with --force"
            for folder, names in self.forgotten.items()
        ]
        if self.unrecorded:
            names = " and ".join(self.unrecorded)
            notes.append(f"{names} not recorded in the database ({self.reason})")
        return notes


@dataclass(frozen=True, slots=True)
class FormKeys:
    """The database keys of a form and of its participant, and the digest of the latter's link."""

    form: int
    participant: int
    link: str


def record_release(database: Database, source: Source, outcome: Outcome, actor: Actor) -> list[str]:
    """Record a release that is in its folder, unless it is recorded already.

    The lock on the study keeps participants' data from being deleted meanwhile. Return the
    participants in the release whose data were deleted after they were read; nothing is recorded of
    their answers.
    """
    keys = keys_of_forms(source.session, source.study)
    release, now = outcome.release, datetime.now(UTC)
    with database.writing() as session:
        lock_study(session, source.study.id)
        links = links_of(session, source.study)
        present = {
            form
            for form in release.answers.forms
            if links[keys[form].participant] == keys[form].link
        }
        forgotten = sorted({name for name, _ in release.answers.forms.keys() - present})
        recorded = find_record(session, source, release)
        if recorded is None:
            row = added(session, new_record(source, release, now, len(forgotten)))
            rows = (
                {
                    "release_id": row.id,
                    "form_id": keys[form].form,
                    "kept": answers.kept,
                    "dropped": answers.dropped,
                }
                for form, answers in release.answers.forms.items()
                if form in present
            )
            table = cast("Table", ExportedForm.__table__)  # rows of the class take twice as long
            while part := list(islice(rows, ROWS_AT_ONCE)):
                session.execute(insert(table), part)
        elif outcome.written:
            recorded.last_exported_at = now
        if recorded is None or outcome.written:
            about = f"{release.name} {release.version}"
            record(session, actor, Action.DATA_EXPORT, study=source.study.name, about=about)
    return forgotten


def keys_of_forms(session: Session, study: Study) -> dict[FormName, FormKeys]:
    rows = session.execute(
        select(Participant.name, Form.name, Form.id, Participant.id, Participant.token_hash)
        .join(Participant, Form.participant_id == Participant.id)
        .where(Form.study_id == study.id)
    )
    return {
        (name, str(form)): FormKeys(key, person, link) for name, form, key, person, link in rows
    }


def links_of(session: Session, study: Study) -> dict[int, str]:
    """The digests of the participants' links, by database key; deleting their data changes them."""
    links = select(Participant.id, Participant.token_hash)
    return dict(session.execute(links.where(Participant.study_id == study.id)).all())


def find_record(session: Session, source: Source, release: Release) -> ExportedRelease | None:
    return session.scalars(
        select(ExportedRelease).where(
            ExportedRelease.study_id == source.study.id,
            ExportedRelease.kind == source.kind,
            ExportedRelease.version == release.version,
            ExportedRelease.content_sha256 == release.content_sha256,
        )
    ).one_or_none()


def new_record(
    source: Source, release: Release, now: datetime, n_forgotten: int
) -> ExportedRelease:
    return ExportedRelease(
        study_id=source.study.id,
        name=release.name,
        kind=source.kind,
        version=release.version,
        content_sha256=release.content_sha256,
        filters=source.filters.described(),
        options=options_of(source),
        hsfiq_version=hsfiq.__version__,
        n_answers=release.funnel.n_kept,
        n_forgotten=n_forgotten,
        first_exported_at=now,
        last_exported_at=now,
    )


def options_of(source: Source) -> dict[str, Any]:
    """What was asked for besides filters."""
    split = asdict(source.split) if source.split else None
    return {
        name: value for name, value in ({"split": split} | asdict(source.extras)).items() if value
    }
