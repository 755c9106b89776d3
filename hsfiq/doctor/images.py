"""Whether the images that participants see are there and can be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sqlalchemy.orm import Session

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.doctor.finding import Finding, quoted
from hsfiq.images.check import FindFault
from hsfiq.study.images.check import check_shown, shown_images
from hsfiq.text import count_text


def examine_images(database: Database) -> Iterator[Finding]:
    """A line for each study that can take answers."""
    with database.reading() as session:
        studies = [
            study
            for study in list_studies(session)
            if study.origin != "imported" and study.status != "closed"
        ]
        for study in studies:
            yield examine_study(session, study)
    if not studies:
        yield Finding("images", "ok", "no study can take answers")


def examine_study(session: Session, study: Study) -> Finding:
    """Open each image and compare it with its digest, without decoding it."""
    checked = check_shown(shown_images(session, study), header_reader())
    number = count_text(checked.images, "image")
    if checked.passed:
        return Finding("images", "ok", f"study {study.name}: {number} there and readable")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(checked.kinds.items()))
    what = f"study {study.name}: of {number}, {kinds}; their questions are skipped"
    is_none_there = len(checked.faulty) == checked.images
    fix = f"hsfiq images check --study {quoted(study.name)}"
    return Finding("images", "problem" if is_none_there else "warning", what, fix)


def header_reader() -> FindFault | None:
    """The function that opens an image; None without Pillow: then files are only looked for."""
    with suppress(ModuleNotFoundError):
        from hsfiq.images.decode import header_fault  # noqa: PLC0415 (needs Pillow)

        return header_fault
    return None
