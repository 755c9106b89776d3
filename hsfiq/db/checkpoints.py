"""Regular checkpoints, so that SQLite's main file is never more than some seconds old."""

from __future__ import annotations

from contextlib import AbstractContextManager

from hsfiq.db.engine import Database
from hsfiq.repeating import repeated

SECONDS = 10.0
"""The time between two checkpoints."""


def regular_checkpoints(
    database: Database, seconds: float = SECONDS
) -> AbstractContextManager[None]:
    """Within the block, copy SQLite's write-ahead log into the main file every few seconds."""
    return repeated(database.checkpoint, seconds, "checkpoints")
