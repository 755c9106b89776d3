"""Exporting a study: making the releases of its answers and writing them to their folders."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Table, insert, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import hsfiq
from hsfiq.actors import Action, Actor
from hsfiq.atomic_files import (
    explained_write_errors,
    put_folder_in_place,
    sha256_of,
    temporary_folder_beside,
)
from hsfiq.audit import record
from hsfiq.collect.studies import lock_study
from hsfiq.db.engine import Database, added
from hsfiq.db.failures import reason_not_written
from hsfiq.db.schema import head_revision
from hsfiq.db.tables import ExportedForm, ExportedRelease, Form, Participant, Study
from hsfiq.errors import Unavailable, UnreadableInput
from hsfiq.kinds import KIND_OF_RELEASE, RELEASE_KINDS, release_kinds_of, require_release_kind
from hsfiq.kinds.rows import FormName
from hsfiq.releases.card import NO_LICENCE
from hsfiq.releases.content import FIRST_VERSION, Release, Source, explain, write_files
from hsfiq.releases.folder import MANIFEST, read_exclusions, read_manifest, read_rows
from hsfiq.releases.layouts.layouts import Extras, require_extras
from hsfiq.releases.privacy import ALIKE
from hsfiq.releases.splits import Split
from hsfiq.study.config import config_of
from hsfiq.study.filters import DEFAULT_RUN, Filters, is_given

# Release folders: writing them, recognizing them, finding the newest.

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A release in its folder; `written` is false if the folder already had the same content."""

    folder: Path
    release: Release
    written: bool


Make = Callable[[Path, str], Release]
"""Writes the files of a release with a version into an empty folder."""


def write_release(make: Make, folder: Path, version: str, *, force: bool = False) -> Outcome:
    """Write the release; unchanged content writes nothing, only `force` replaces another one.

    For unchanged content, the outcome has the existing version.
    """
    require_folder(folder)
    with explained_write_errors(folder), temporary_folder_beside(folder) as draft:
        release = make(draft, version)
        is_written = is_replaced(folder, release, force=force)
        if is_written:
            put_folder_in_place(draft, folder)
        elif manifest := read_manifest(folder):
            release = replace(release, version=manifest["version"])
        return Outcome(folder, release, is_written)


def require_folder(folder: Path) -> None:
    """Raise `UnreadableInput` if the folder cannot hold a release."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnreadableInput(str(folder), "exists and is not a folder")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UnreadableInput(str(folder), "is the current folder", "name another folder")


def is_replaced(folder: Path, release: Release, *, force: bool) -> bool:
    """Whether the release replaces what the folder holds; not if it has the same content."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    content = content_of(folder)
    if content == release.content_sha256:
        return False
    if not force:
        what = "another release" if content else "contains something other than a complete release"
        raise UnreadableInput(str(folder), f"holds {what}", "name another folder, or --force")
    if read_manifest(folder) is None:
        raise UnreadableInput(str(folder), "holds no release; --force replaces only releases")
    return True


def write_next_version(
    make: Make, parent: Path, name: str, version: str | None, *, force: bool
) -> Outcome:
    """Write `parent/<name>-<version>`, unless the newest version there has the same content.

    Without a version it is the newest, or 1.0.0.

    Raises:
        UnreadableInput: the content has changed and neither a version nor `force` is given, or the
            version is lower than the newest, or exists and `force` is not given.
    """
    versions = versions_in(parent, name)
    newest = versions[-1] if versions else None
    if version is not None and newest is not None and version_key(version) < version_key(newest):
        raise UnreadableInput("--version", f"{version} is lower than {newest}, the newest")
    chosen = version or newest or FIRST_VERSION
    folder = parent / f"{name}-{chosen}"
    is_new_version_needed = version is None and newest is not None and not force

    def make_or_ask_for_version(draft: Path, version: str) -> Release:
        release = make(draft, version)
        if is_new_version_needed and content_of(folder) != release.content_sha256:
            raise UnreadableInput(
                str(folder),
                "the answers, filters or split have changed since this release",
                f"give the new release's version, such as --version {next_version(chosen)}",
            )
        return release

    return write_release(make_or_ask_for_version, folder, chosen, force=force)


def full_version(version: str) -> str:
    """A version with its three numbers: `2` is 2.0.0.

    Raises:
        UnreadableInput: it is not a version.
    """
    full = version + ".0" * (2 - version.count("."))
    if _VERSION.fullmatch(full) is None:
        raise UnreadableInput("--version", f"{version!r} is not a version like {FIRST_VERSION}")
    return full


def next_version(version: str) -> str:
    major, minor, _ = version_key(version)
    return f"{major}.{minor + 1}.0"


def content_of(folder: Path) -> str | None:
    """Return the content digest of a release folder; None if it is not a complete release."""
    manifest = read_manifest(folder)
    files = manifest.get("files") if manifest else None
    if manifest is None or not isinstance(files, dict):
        return None
    for name, entry in files.items():
        path, expected = folder / name, entry.get("sha256") if isinstance(entry, dict) else None
        if not path.is_file() or sha256_of(path) != expected:
            return None
    return str(manifest["content_sha256"])


def versions_in(parent: Path, name: str) -> list[str]:
    """Return the versions of the release `name` in `parent`, lowest first."""
    versions = [
        path.name.removeprefix(f"{name}-")
        for path in parent.glob(f"{name}-*")
        if _VERSION.fullmatch(path.name.removeprefix(f"{name}-")) and path.is_dir()
    ]
    return sorted(versions, key=version_key)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def newest_release(parent: Path, kind: str) -> Path | None:
    """Return the most recently written release among each study's highest versions of this kind."""
    newest: dict[str, tuple[tuple[int, ...], Path]] = {}
    for folder in parent.iterdir() if parent.is_dir() else ():
        manifest = read_manifest(folder)
        if manifest is None or manifest["kind"] != kind:
            continue
        name, version = manifest["name"], manifest["version"]
        if _VERSION.fullmatch(version) is None or folder.name != f"{name}-{version}":
            continue
        candidate = (version_key(version), folder)
        newest[name] = max(candidate, newest.get(name, candidate))
    return max(
        (folder for _, folder in newest.values()),
        key=lambda folder: (folder / MANIFEST).stat().st_mtime_ns,
        default=None,
    )


def releases_holding(parent: Path, study: str, participant: str) -> list[Path]:
    """Return the releases in `parent` with answers, kept or dropped, of a study's participant."""
    return [
        folder
        for folder in sorted(parent.iterdir() if parent.is_dir() else ())
        if (manifest := read_manifest(folder)) is not None
        and manifest.get("study") == study
        and participant in participants_in(folder, manifest["kind"])
    ]


def participants_in(release: Path, kind: str) -> set[str]:
    """Return the participants with answers kept or dropped; an unreadable table counts as empty."""
    participants: set[str] = set()
    main = RELEASE_KINDS[kind].main if kind in RELEASE_KINDS else "preferences"
    with suppress(UnreadableInput):
        rows = read_rows(release / f"{main}.parquet", ("participant_id",))
        participants |= {row["participant_id"] for row in rows}
    with suppress(UnreadableInput):
        dropped = read_exclusions(release)
        participants |= {row.participant_id for row in dropped if row.rule != "unanswered"}
    return participants


def export_releases(
    session: Session,
    study: Study,
    kinds: Sequence[str] | None,
    filters: Filters,
    split: Split | None = None,
    extras: Extras | None = None,
    *,
    parent: Path = Path("releases"),
    folder: Path | None = None,
    version: str | None = None,
    force: bool = False,
    in_place: Callable[[Source, Outcome], None] | None = None,
) -> list[Outcome]:
    """Write a release of each kind (None: all that the study has); unchanged content writes none.

    A `folder` is the release folder itself, for a single kind; without it, each kind has
    `<parent>/<study>-<kind>-<version>`. If the content has changed, a `version` is required.
    `in_place` is called for each release once its folder is there.

    Raises:
        NothingToDo: no answered question is kept, or too few to split.
        UnreadableInput: the version or the folder cannot be used.
    """
    version = None if version is None else full_version(version)
    sources = sources_of(session, study, kinds, filters, split, extras)
    if folder is not None and len(sources) > 1:
        raise ValueError("--release needs a single kind")
    outcomes = []
    for source in sources:
        if folder is None:
            make_files, name = partial(make, source), source.name
            outcome = write_next_version(make_files, parent, name, version, force=force)
        else:
            first = version or FIRST_VERSION
            outcome = write_release(partial(make, source), folder, first, force=force)
        if in_place is not None:
            in_place(source, outcome)
        outcomes.append(outcome)
    return outcomes


def sources_of(
    session: Session,
    study: Study,
    kinds: Sequence[str] | None,
    filters: Filters,
    split: Split | None = None,
    extras: Extras | None = None,
) -> list[Source]:
    """The input of the export for each kind of release.

    Raises:
        UnreadableInput: the study has no such kind, or the kind cannot have the extras.
    """
    extras = extras or Extras()
    kinds = kinds or release_kinds_of(study.kind)
    for kind in kinds:
        require_release_kind(kind, study.kind, study.name)
        licence = (extras.publication or config_of(study).release).licence
        require_extras(extras, kind, licence)
    return [Source(session, study, kind, filters, split, extras) for kind in kinds]


EVERY_FILTER = Filters(
    invalid=True, failed_checks=True, unseen=True, min_seconds=2.0, straight_run=DEFAULT_RUN
)


def preview(source: Source, release: Release, folder: Path) -> dict[str, Any]:
    """What each filter would drop, and the recognizable participants of a written release.

    Chosen filters keep their own parameters.
    """
    chosen = {name: value for name, value in asdict(source.filters).items() if is_given(value)}
    every = replace(EVERY_FILTER, **chosen)
    if KIND_OF_RELEASE[source.kind].is_live:
        every = replace(every, straight_run=None)
    funnel, _ = explain(replace(source, filters=every))
    manifest = read_manifest(folder) or {}
    return {
        "filters": source.filters.names(),
        "possible": every.names(),
        "answers": release.funnel.n_kept,
        "people": manifest["counts"]["participants"],
        "broken_by": {step.rule: step.broken_by for step in funnel.steps},
        "alike": manifest.get(ALIKE),
        "warnings": [each for each in release.warnings if each != NO_LICENCE],
    }


def make(source: Source, draft: Path, version: str) -> Release:
    with without_cycle_search():
        return write_files(source, draft, schema_revision=head_revision(), version=version)


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Disable garbage collection: the rows have no cycles, and it takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# Recording a release in the database that it was exported from.

ROWS_AT_ONCE = 5_000


@dataclass(slots=True)
class Recorder:
    """Records releases, each as soon as it is in its folder; called by `export_releases`.

    The audit log has `actor` as the one who exported them. `unrecorded` has the names of the
    unrecorded releases, `reason` the reason, and `forgotten` the participants whose data were
    deleted while a release with their answers was written.
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
    """The requested options besides filters."""
    split = asdict(source.split) if source.split else None
    return {
        name: value for name, value in ({"split": split} | asdict(source.extras)).items() if value
    }
