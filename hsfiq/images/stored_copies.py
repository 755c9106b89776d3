"""The files of images' copies: WebP, followed by the SHA-256 of what precedes it.

A copy that the disk has damaged is therefore noticed whenever it is read. Programs that show WebP
files ignore what follows the picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from hsfiq.atomic_files import locked, put_in_place

SUFFIX, DRAFT_SUFFIX = ".webp", ".part"

_DIGEST_SIZE = hashlib.sha256().digest_size


def write_copy(path: Path, content: bytes) -> None:
    """Write a copy atomically: no process ever reads an incomplete copy."""
    with locked_draft(path.parent) as draft:
        draft.write_bytes(content + hashlib.sha256(content).digest())
        put_in_place(draft, path)


def read_copy(path: Path) -> bytes | None:
    """The content of a copy; None if it is damaged, unreadable or absent."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    content, digest = stored[:-_DIGEST_SIZE], stored[-_DIGEST_SIZE:]
    return content if hashlib.sha256(content).digest() == digest else None


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
