"""The folders of the database and of the thumbnails: their space, and whether files can be made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

from hsfiq.db.failures.free_space import LEAST_SPACE, first_existing, free_space
from hsfiq.doctor.finding import Finding, quoted
from hsfiq.images.stored_copies import damaged_copies
from hsfiq.text import count_text

SCARCE_SPACE = 2**30
"""Bytes below which there is a warning."""


def examine_space(folders: Iterable[Path]) -> Iterator[Finding]:
    """Space on the disks of these folders, each of which may have to be made."""
    for folder in existing(folders):
        free = free_space(folder)
        what = f"{folder}: {free / 2**20:,.0f} MB left"
        fix = f"df -h {quoted(folder)}; move it to a larger disk or delete other files"
        if free < LEAST_SPACE:
            needed = f"{what}; a server needs {LEAST_SPACE // 2**20}"
            yield Finding("disk", "problem", needed, fix)
        elif free < SCARCE_SPACE:
            yield Finding("disk", "warning", what, fix)
        else:
            yield Finding("disk", "ok", what)


def examine_writing(folders: Iterable[Path]) -> Iterator[Finding]:
    """Whether this user can make files in these folders."""
    for folder in existing(folders):
        try:
            with TemporaryFile(dir=folder):
                pass
        except OSError as error:
            what = f"{folder}: no file can be made here ({error.strerror})"
            fix = f'chown "$(id -un)" {quoted(folder)} && chmod u+rwx {quoted(folder)}'
            yield Finding("permissions", "problem", what, fix)
        else:
            yield Finding("permissions", "ok", f"{folder}: files can be made")


def examine_copies(folder: Path) -> Iterator[Finding]:
    """Read the copies of images that pages show, if there are any."""
    number, damaged = damaged_copies(folder)
    if damaged:
        what = (
            f"{folder}: {damaged:,} of {count_text(number, 'copy', 'copies')} of images are "
            "damaged or of an earlier version; a server makes them again when it shows them"
        )
        yield Finding("thumbnails", "warning", what, "hsfiq images warm")
    elif number:
        what = f"{folder}: {count_text(number, 'copy', 'copies')} of images, all undamaged"
        yield Finding("thumbnails", "ok", what)


def existing(folders: Iterable[Path]) -> list[Path]:
    """Each folder, or the nearest one above it that exists, once."""
    nearest = (first_existing(folder) for folder in folders)
    return list(dict.fromkeys(folder for folder in nearest if folder is not None))
