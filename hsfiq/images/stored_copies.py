"""The files of images' copies: WebP, followed by the SHA-256 of what precedes it.

A copy that the disk has damaged is therefore noticed whenever it is read. Programs that show WebP
files ignore what follows the picture.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock

from hsfiq.atomic_files import locked, put_in_place
from hsfiq.errors import UnreadableInput

SUFFIX, DRAFT_SUFFIX, ORIGINAL = ".webp", ".part", ".image"

_DIGEST_SIZE = hashlib.sha256().digest_size


def write_copy(path: Path, content: bytes) -> None:
    """Write a copy atomically: no process ever reads an incomplete copy."""
    with locked_draft(path.parent) as draft:
        draft.write_bytes(content + hashlib.sha256(content).digest())
        put_in_place(draft, path)


def read_copy(path: Path) -> bytes | None:
    """The content of a copy; None if it is damaged, unreadable or absent."""
    try:
        with path.open("rb") as file:
            stored = file.read()
            if time.time() - os.fstat(file.fileno()).st_mtime > USE_NOTED_AFTER:
                with suppress(OSError):  # the folder of another user
                    os.utime(file.fileno())
    except OSError:
        return None
    content, digest = stored[:-_DIGEST_SIZE], stored[-_DIGEST_SIZE:]
    return content if hashlib.sha256(content).digest() == digest else None


# A folder of copies within a bound: those go first that were read least recently.

LIMIT_VARIABLE, GIGABYTES = "HSFIQ_IMAGE_CACHE_GB", re.compile(r"\d{1,9}(\.\d{1,9})?")

USE_NOTED_AFTER = 3600.0
"""Seconds: a copy's date is that of its last use, not more exact than this."""

FREED = 0.1
"""The part of the bound that is freed at once."""


def cache_limit() -> int:
    """The most bytes of a folder of copies."""
    text = os.environ.get(LIMIT_VARIABLE) or "20"
    if not GIGABYTES.fullmatch(text) or not float(text):
        raise UnreadableInput(LIMIT_VARIABLE, f"{text!r} is not a size in GB", "such as 20")
    return int(float(text) * 1e9)


class BoundedFolder:
    """Deletes files from a folder that grows beyond the bound."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        self._limit = self._new = cache_limit()

    def has_grown(self, size: int) -> None:
        """Note so many new bytes; from time to time, the folder is measured."""
        with self._lock:
            self._new += size
            if self._new < self._limit * FREED / 2:
                return
            self._new = 0
        self.delete_excess()

    def delete_excess(self) -> None:
        files = []
        for path in (*self.path.glob(f"*{SUFFIX}"), *self.path.glob(f"*{ORIGINAL}")):
            with suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        excess = total - self._limit * (1 - FREED) if total > self._limit else 0
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


def damaged_copies(folder: Path) -> tuple[int, int]:
    """The number of copies in a folder, and of the damaged ones; all are read."""
    copies = sorted(folder.glob(f"*{SUFFIX}"))
    return len(copies), sum(read_copy(copy) is None for copy in copies)


@contextmanager
def locked_draft(folder: Path) -> Iterator[Path]:
    """A new file for a copy, which no other process deletes; it is deleted on exit."""
    with ExitStack() as stack:
        while True:
            with NamedTemporaryFile(dir=folder, suffix=DRAFT_SUFFIX, delete=False) as file:
                draft = Path(file.name)
            # Another process may have deleted it before it was locked.
            with suppress(BlockingIOError, FileNotFoundError):
                stack.enter_context(locked(draft))
                if draft.exists():
                    break
        stack.callback(draft.unlink, missing_ok=True)
        yield draft


def clear_abandoned(folder: Path) -> None:
    """Delete the drafts that processes left when they were killed: no process has locked them."""
    for draft in folder.glob(f"*{DRAFT_SUFFIX}"):
        with suppress(OSError), locked(draft):
            draft.unlink()
