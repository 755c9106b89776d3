"""The images that a browser may fetch: found by opaque token, served without a trace of a name."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

from fastapi import Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.images import ImageFolder
from hsfiq.tables import Dataset, Image

TOKEN = re.compile(r"[0-9a-f]{32}")
MEDIA_TYPES = {".png": "image/png", ".webp": "image/webp", ".jpg": "image/jpeg"}
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


class Shelf:
    """The image folders of all datasets; each is listed once, when it is first asked for."""

    def __init__(self) -> None:
        self._folders: dict[int, ImageFolder | None] = {}
        self._lock = Lock()

    def file(self, session: Session, image: Image) -> Path | None:
        """The file of this image, None where it is missing."""
        folder = self._folder(session, image.dataset_id)
        path = folder.find(image.name) if folder else None
        return path if path and path.is_file() else None

    def _folder(self, session: Session, dataset_id: int) -> ImageFolder | None:
        with self._lock:
            if dataset_id not in self._folders:
                root = session.get_one(Dataset, dataset_id).image_root
                self._folders[dataset_id] = ImageFolder(Path(root)) if root else None
            return self._folders[dataset_id]


def image_response(session: Session, shelf: Shelf, token: str) -> Response:
    """The image with this token, 404 where there is none.

    No ETag and no Last-Modified: a file's date may tell what its name would.
    """
    image = None
    if TOKEN.fullmatch(token):
        image = session.scalars(select(Image).where(Image.token == token)).one_or_none()
    path = shelf.file(session, image) if image else None
    if path is None:
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    media_type = MEDIA_TYPES.get(path.suffix.lower(), "image/jpeg")
    return Response(path.read_bytes(), media_type=media_type, headers=HEADERS)
