"""The images that a browser may fetch: found by opaque token, served without a trace of a name."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

from fastapi import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate import practice
from hsfiq.annotate.thumbnails import Kind, Thumbnails
from hsfiq.db.tables import Dataset, Image
from hsfiq.images.folder import ImageFolder

TOKEN = re.compile(r"[0-9a-f]{32}")
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


class Shelf:
    """The image folders of all datasets; each is listed once, when it is first asked for."""

    def __init__(self, thumbnails: Thumbnails) -> None:
        self._thumbnails = thumbnails
        self._folders: dict[int, ImageFolder | None] = {}
        self._lock = Lock()

    def picture(self, session: Session, image: Image, kind: Kind = "thumbnail") -> Path | None:
        """The picture to serve, None where the image's file is missing or no image."""
        folder = self._folder(session, image.dataset_id)
        path = folder.find(image.name) if folder else None
        return self._thumbnails.of(path, kind) if path and path.is_file() else None

    def _folder(self, session: Session, dataset_id: int) -> ImageFolder | None:
        with self._lock:
            if dataset_id not in self._folders:
                root = session.get_one(Dataset, dataset_id).image_root
                self._folders[dataset_id] = ImageFolder(Path(root)) if root else None
            return self._folders[dataset_id]


def image_response(session: Session, shelf: Shelf, token: str, kind: Kind) -> Response:
    """The image with this token, 404 where there is none.

    No ETag and no Last-Modified: a file's date may tell what its name would.
    """
    content = practice.picture(token)
    if content is None and TOKEN.fullmatch(token):
        image = session.scalars(select(Image).where(Image.token == token)).one_or_none()
        path = shelf.picture(session, image, kind) if image else None
        content = path.read_bytes() if path else None
    if content is None:
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    return Response(content, media_type="image/webp", headers=HEADERS)
