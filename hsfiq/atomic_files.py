"""Files that are there whole or not at all, through a kill and a power cut."""

from __future__ import annotations

import os
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


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
