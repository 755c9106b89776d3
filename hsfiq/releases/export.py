"""Exporting a study: making the releases of its answers and writing them to their folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sqlalchemy.orm import Session

from hsfiq.db.schema import head_revision
from hsfiq.db.tables import Study
from hsfiq.releases.content import FIRST_VERSION, Release, build
from hsfiq.releases.filters import Filters, Kind
from hsfiq.releases.folder import Outcome, require_version, write_next_version, write_release
from hsfiq.releases.kinds import release_kinds_of, require_release_kind
from hsfiq.releases.splits import Split


def export_releases(
    session: Session,
    study: Study,
    kinds: Sequence[Kind] | None,
    filters: Filters,
    split: Split | None = None,
    *,
    parent: Path = Path("releases"),
    folder: Path | None = None,
    version: str | None = None,
    force: bool = False,
) -> list[Outcome]:
    """Write a release of each kind (None: all that the study has); unchanged content writes none.

    A `folder` is the release folder itself, for a single kind; without it, each kind has
    `<parent>/<study>-<kind>-<version>`. If the content has changed, a `version` is required.

    Raises:
        NothingToDo: no answered question is kept, or too few to split.
        UnreadableInput: the version or the folder cannot be used.
    """
    require_version(version)
    kinds = kinds or release_kinds_of(study.kind)
    for kind in kinds:
        require_release_kind(kind, study.kind, study.name)

    def make(kind: Kind, version: str) -> Release:
        return build(
            session, study, kind, filters, split,
            schema_revision=head_revision(), version=version,
        )  # fmt: skip

    if folder is not None:
        (kind,) = kinds
        return [write_release(make(kind, version or FIRST_VERSION), folder, force=force)]
    return [
        write_next_version(
            partial(make, kind), parent, f"{study.name}-{kind}", version, force=force
        )
        for kind in kinds
    ]  # fmt: skip
