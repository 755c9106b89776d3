"""Writing the report's folder atomically: completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hsfiq.analysis.errors import AnalysisError

REPORT_FILES = ("report.html", "results.json")
"""A folder that holds these is a report, and may be replaced."""


def require_free(folder: Path, *, force: bool = False) -> None:
    """Check that a report can be written, before anything is computed for it.

    AnalysisError: not a folder, or it holds other files, or a report and `force` is not given.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AnalysisError(folder, "not a folder", "choose another path")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    if not names.issuperset(REPORT_FILES):
        raise AnalysisError(folder, "holds files that are not a report", "choose another folder")
    if not force:
        raise AnalysisError(folder, "a report already exists", "replace it with --force")


def write_folder(files: Mapping[str, bytes], folder: Path, *, force: bool = False) -> None:
    """Write files, by path, into a temporary folder beside `folder`, flush them, then rename it.

    An existing report is removed only once the new one is in place. AnalysisError: see
    `require_free`; or the folder cannot be written.
    """
    require_free(folder, force=force)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _fill(draft, files)
            _swap_in(draft, folder)
            _sync(folder.parent)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise AnalysisError(folder, f"cannot be written ({error.strerror})") from error


def _fill(draft: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = draft / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        _sync(path)
    for written in {(draft / name).parent for name in files} | {draft}:
        _sync(written)
    draft.chmod(0o755)  # mkdtemp creates folders that only their owner can read


def _swap_in(draft: Path, folder: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    old = draft.with_name(f"{draft.name}-old")
    folder.rename(old)
    try:
        draft.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old)


def _sync(path: Path) -> None:
    """Flush a file, or a folder's list of files, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
