"""Who can read a database's files: their owner, and a group that shares them on purpose.

A SQLite file holds the participants' links, their platform ids and the key that signs cookies:
whoever can read it can answer as any participant, and enter the dashboard as the owner.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

LOG_SUFFIXES = ("-wal", "-shm", "-journal")
"""What SQLite adds to a database's name for the files beside it."""

OWNER, GROUP = 0o600, 0o660


def make_file_private(path: Path) -> None:
    """Make a missing SQLite file for its owner only; SQLite gives its mode to those beside it."""
    with suppress(OSError):  # SQLite itself reports what it cannot open
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER))


def make_database_private(path: Path) -> None:
    """Take the access to an existing SQLite file, and to those beside it, from others.

    A group keeps its access if it may write: that is how a team shares one file on purpose.
    """
    real = os.path.realpath(path)  # SQLite follows links, too
    for suffix in ("", *LOG_SUFFIXES):
        take_from_others(Path(f"{real}{suffix}"))


def make_folder_private(folder: Path) -> None:
    """Make a missing folder, and the folders above it, so that only its owner can enter it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def take_from_others(path: Path) -> None:
    """Take the access to a file from others, and from a group that may not write.

    Only the file's owner does so; a disk may have no modes.
    """
    with suppress(OSError):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner_id():
            return
        mode = stat.S_IMODE(status.st_mode)
        allowed = mode & (GROUP if mode & stat.S_IWGRP else OWNER)
        if allowed != mode:
            path.chmod(allowed)


def owner_id() -> int:
    """The user of this process; Windows has no such numbers, nor modes of files."""
    return os.geteuid() if hasattr(os, "geteuid") else -1
