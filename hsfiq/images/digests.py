"""Digests of files: whether one still has the bytes that it had."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from hsfiq.images.faults import CHANGED, NOT_REGULAR, Fault


def sha256_of(path: Path) -> str | Fault:
    """The SHA-256 of a file's bytes in hexadecimal; a fault if the file cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for its writer
            return NOT_REGULAR
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return Fault("missing", "has been removed")
    except OSError as error:
        return Fault("unreadable", f"cannot be read ({error.strerror})")


def change_of(path: Path, recorded: str) -> Fault | None:
    """`CHANGED` if the file has other bytes than the recorded ones; a fault if it is unreadable."""
    digest = sha256_of(path)
    if isinstance(digest, Fault):
        return digest
    return None if digest == recorded else CHANGED
