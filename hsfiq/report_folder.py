"""The folder of an analysis' report: whether it may be written, and writing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hsfiq.atomic_files import names_in_folder, write_folder
from hsfiq.errors import UnreadableInput

REPORT_FILES = ("report.html", "results.json")
"""A folder that holds these is a report, and may be replaced."""


def write_report(files: Mapping[str, bytes], folder: Path | str, *, force: bool = False) -> None:
    """Write the files of a report, `Report.files()`, completely or not at all.

    Raises:
        UnreadableInput: see `require_free`; or the folder cannot be written.
    """
    require_free(Path(folder), force=force)
    write_folder(Path(folder), files)


def require_free(folder: Path, *, force: bool = False) -> None:
    """Check that a report can be written to this folder.

    Raises:
        UnreadableInput: not a folder, or it holds other files, or a report and `force` is not
            given.
    """
    names = names_in_folder(folder)
    if not names:
        return
    if not names.issuperset(REPORT_FILES):
        raise UnreadableInput(
            str(folder), "holds files that are not a report", "choose another folder"
        )
    if not force:
        raise UnreadableInput(str(folder), "a report already exists", "replace it with --force")
