"""Exporting a study: making the releases of its answers and writing them to their folders."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Study
from hsfiq.releases.content import FIRST_VERSION, Release, Source, write_files
from hsfiq.releases.filters import Filters, Kind
from hsfiq.releases.folder import Outcome, full_version, write_next_version, write_release
from hsfiq.releases.kinds import release_kinds_of, require_release_kind
from hsfiq.releases.layouts.layouts import require_extras
from hsfiq.releases.layouts.options import Extras
from hsfiq.releases.splits import Split
from hsfiq.study.config import config_of


def export_releases(
    session: Session,
    study: Study,
    kinds: Sequence[Kind] | None,
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
        raise ValueError("one folder for several releases")
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
    kinds: Sequence[Kind] | None,
    filters: Filters,
    split: Split | None = None,
    extras: Extras | None = None,
) -> list[Source]:
    """What is exported as each kind of release.

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


def make(source: Source, draft: Path, version: str) -> Release:
    with without_cycle_search():
        return write_files(source, draft, schema_revision=head_revision(), version=version)


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Rows have no reference cycles, and Python's search for them takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
