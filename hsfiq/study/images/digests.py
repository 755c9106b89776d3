"""Recording the digests of images' files, so that a changed file is noticed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Image, ImageChange
from hsfiq.db.tables import METADATA, Study
from hsfiq.images.check import Track
from hsfiq.study.images.check import StudyImages, check_shown, shown_images

ROWS_AT_ONCE = 1000
"""Rows of one transaction, so that others who write wait for milliseconds only."""

_images, _changes = (METADATA.tables[table.__tablename__] for table in (Image, ImageChange))
IS_IMAGE = (_images.c.dataset_id == bindparam("dataset")) & (_images.c.name == bindparam("image"))


def check_and_record(database: Database, study: str, track: Track = iter) -> StudyImages:
    """Check the images of a study without decoding them, and record the digests of new ones."""
    with database.reading() as session:
        row = session.scalars(select(Study).where(Study.name == study)).one()
        shown = shown_images(session, row)
    states = check_shown(shown, track=track)
    record_new(database, states)
    return states


def record_new(database: Database, states: StudyImages) -> None:
    """Record the digests of images that have none yet."""
    statement = (
        update(_images)
        .where(IS_IMAGE, _images.c.sha256.is_(None))
        .values(sha256=bindparam("digest"))
    )
    rows = [
        {"dataset": states.dataset_id, "image": new.image, "digest": new.sha256}
        for new in states.new
    ]
    for batch in batches(rows):
        with database.writing() as session:
            session.connection().execute(statement, batch)


def accept_changed(database: Database, states: StudyImages) -> None:
    """Record the digests of the changed files in place of the earlier ones.

    The images get new tokens, so that no page shows some of the files as they were and others as
    they are.
    """
    renew = (
        update(_images)
        .where(IS_IMAGE)
        .values(sha256=bindparam("digest"), token=bindparam("new_token"))
    )
    settled = delete(_changes).where(_changes.c.image_id.in_(select(_images.c.id).where(IS_IMAGE)))
    rows = [
        {
            "dataset": states.dataset_id,
            "image": changed.image,
            "digest": changed.sha256,
            "new_token": secrets.token_hex(16),
        }
        for changed in states.changed
    ]
    for batch in batches(rows):
        with database.writing() as session:
            session.connection().execute(renew, batch)
            keys = [{key: row[key] for key in ("dataset", "image")} for row in batch]
            session.connection().execute(settled, keys)


def batches(rows: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]
