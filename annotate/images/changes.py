"""Images whose files were found changed: stored, so that the owner sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Condition, Thread

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from hsfiq.db import source_tables
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import ImageChange
from hsfiq.errors import Unavailable

LONGEST_WAIT = 10.0
"""Seconds until changes are stored again that could not be stored."""


class FoundChanges:
    """The changed images that this process has found, by token.

    Requests only add to them. A thread stores them, so that no request waits for it.
    """

    def __init__(self) -> None:
        self._new: set[str] = set()
        self._stored: set[str] = set()
        self._ended = False
        self._changed = Condition()

    def add(self, token: str) -> None:
        with self._changed:
            if token not in self._stored:
                self._new.add(token)
                self._changed.notify_all()

    def store(self, database: Database) -> None:
        """Store those that are not stored yet."""
        with self._changed:
            tokens = set(self._new)
        if not tokens:
            return
        with database.writing() as session:
            known = set(session.scalars(select(ImageChange.image_id)))
            for token in sorted(tokens):
                image = session.scalar(
                    select(source_tables.Image.id).where(source_tables.Image.token == token)
                )
                if image is not None and image not in known:
                    session.add(ImageChange(image_id=image, found_at=datetime.now(UTC)))
        with self._changed:
            self._new -= tokens
            self._stored |= tokens

    @contextmanager
    def stored_in(self, database: Database) -> Iterator[None]:
        """Within the block, store changes soon after they are found."""
        thread = Thread(target=self._keep_stored, args=(database,), name="changed images")
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
            thread.join()

    def _keep_stored(self, database: Database) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._new)
                if self._ended:
                    return
            try:
                self.store(database)
            except (SQLAlchemyError, Unavailable):
                with self._changed:  # the database is busy, full or away
                    self._changed.wait_for(lambda: self._ended, LONGEST_WAIT)
