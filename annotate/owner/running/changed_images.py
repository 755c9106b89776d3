"""The dashboard's card of images whose files have changed since their digests were recorded."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.images.store import ImageStore
from hsfiq.annotate.owner.cards import Card
from hsfiq.db.source_tables import Image, ImageChange
from hsfiq.db.tables import Study
from hsfiq.images.folder import Fault
from hsfiq.study.images import dataset_of

NAME = "Changed images"
LISTED = 20


def changed_images_card(session: Session, study: Study, images: ImageStore) -> Card | None:
    """The images of the study's dataset that are not shown, with their paths; None if all are."""
    paths, more = changed_files(session, study, images)
    if not paths:
        return None
    notes = [
        (
            "These files are not shown, because they have other bytes than when their digests were "
            f"recorded. Restore them, or run hsfiq images check --study {study.name}, with "
            "--accept to show them as they are now."
        ),
        *(f"{name}: {path}" for name, path in paths),
    ]
    return Card(NAME, notes=(*notes, *([f"and {more:,} more"] if more else [])))


def changed_files(
    session: Session, study: Study, images: ImageStore
) -> tuple[list[tuple[str, Path | None]], int]:
    """The first changed images with their paths, and the number of further ones.

    A file that has been restored is left out.
    """
    dataset = dataset_of(session, study)
    if dataset is None:
        return [], 0
    rows = session.scalars(
        select(Image)
        .join(ImageChange, ImageChange.image_id == Image.id)
        .where(Image.dataset_id == dataset.id)
        .order_by(Image.name)
    ).all()
    listed: list[tuple[str, Path | None]] = []
    for number, image in enumerate(rows):
        if len(listed) == LISTED:
            return listed, len(rows) - number
        copy = images.file_of(session, image)
        if isinstance(copy, Fault) and copy.kind == "changed":
            listed.append((image.name, images.source_of(image)))
    return listed, 0
