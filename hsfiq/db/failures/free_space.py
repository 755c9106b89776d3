"""How much space a disk has left."""

from __future__ import annotations

import os
from pathlib import Path

LEAST_SPACE = 100 * 2**20
"""Bytes that a disk must have left for a server to take answers."""


def first_existing(folder: Path) -> Path | None:
    """The folder, or the nearest one above it that exists."""
    return next((each for each in (folder, *folder.absolute().parents) if each.exists()), None)


def free_space(folder: Path) -> int:
    """Bytes that this user may still write."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize
