"""A folder of files that is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.analysis.errors import AnalysisError

if TYPE_CHECKING:
    from collections.abc import Mapping

MADE_OF = ("report.html", "results.json")
"""What a folder must hold to be taken for a report, and replaced."""


def require_free(folder: Path, *, force: bool = False) -> None:
    """Say whether a report can be written, before anything is computed for it.

    Args:
        folder: where it is to stand.
        force: whether a report that stands there may be replaced.

    Raises:
        AnalysisError: the folder is not empty and no report, or one that may not be replaced, or
            it is no folder at all.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise AnalysisError(folder, "is no folder", "name another one")
    held = {path.name for path in folder.iterdir()}
    if not held:
        return
    if not held.issuperset(MADE_OF):
        raise AnalysisError(folder, "holds other files, and no report", "name another folder")
    if not force:
        raise AnalysisError(folder, "there is a report already", "replace it with --force")


def write_folder(files: Mapping[str, bytes], folder: Path, *, force: bool = False) -> None:
    """Write files beside `folder`, flush them to the disk, then rename: all or nothing.

    Args:
        files: path inside the folder -> content.
        folder: where they are to stand.
        force: whether a report that stands there is replaced; it goes only after the new one
            stands.

    Raises:
        AnalysisError: see `require_free`; or the folder cannot be written.
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
    for inner in {(draft / name).parent for name in files} | {draft}:
        _sync(inner)
    draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read


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
    """Wait until a file, or a folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
