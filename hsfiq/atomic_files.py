"""Files that are there whole or not at all, through a kill and a power cut."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, in the place of the one that is there.

    A killed process leaves that one as it was, and perhaps its draft `.<name>-<process>.draft`.

    Raises:
        OSError: the folder cannot be written to, or its disk is full.
    """
    draft = path.with_name(f".{path.name}-{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        put_in_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a finished draft of the same disk to its place once it has reached that disk.

    Raises:
        OSError: it cannot be renamed, or the disk is full.
    """
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder with all of its files or none, replacing one of the same name.

    Raises:
        OSError: the place cannot be written to, or its disk is full.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, content in files.items():
            (draft / name).write_bytes(content)
            sync(draft / name)
        draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        sync(draft)
        swap_folder(draft, folder)
        sync(folder.parent)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def swap_folder(draft: Path, folder: Path) -> None:
    """Rename the draft to its place; the folder it replaces is deleted only afterwards."""
    if not folder.is_dir() or not any(folder.iterdir()):
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


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
