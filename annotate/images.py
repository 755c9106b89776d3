"""Images as the page shows them: WebP copies, served by opaque token, without any metadata.

A thumbnail is what the page shows, a full image what it enlarges. Copies are made once and kept
beside the database; no comment, path or location in the original file reaches the browser.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import weakref
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from threading import Lock
from typing import Any, Literal

from fastapi import Response
from PIL.Image import Resampling
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate import practice
from hsfiq.db.engine import Database
from hsfiq.db.tables import Dataset, Image
from hsfiq.images.decode import UndecodableImage, decode, upright
from hsfiq.images.folder import ImageFolder

ImageSize = Literal["thumbnail", "full"]

LONGEST_SIDE = 512
"""Pixels of a thumbnail: sharp in the page's boxes on a high-resolution screen."""

TOKEN = re.compile(r"[0-9a-f]{32}")
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


class WebCopies:
    """The WebP copies of image files; a changed file (by path, size and date) gets a new copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[tuple[Path, ImageSize], Path | None] = {}
        self._lock = Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=folder):
                pass
        except OSError:  # not writable: keep the copies for the life of this process
            self._folder = Path(mkdtemp(prefix="hsfiq-thumbnails-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def of(self, source: Path, size: ImageSize) -> Path | None:
        """The copy's file, made if needed; None if the source cannot be decoded."""
        key = (source, size)
        with self._lock:
            is_known, copy = key in self._copies, self._copies.get(key)
        if not is_known or (copy is not None and not copy.is_file()):
            copy = self._make(source, size)
            with self._lock:
                self._copies[key] = copy
        return copy

    def _make(self, source: Path, size: ImageSize) -> Path | None:
        try:
            path = self._folder / f"{fingerprint(source, size)}.webp"
            if not path.is_file():
                write_copy(path, source, size)
        except (UndecodableImage, OSError, ValueError):
            return None
        return path


def fingerprint(source: Path, size: ImageSize) -> str:
    """A name for the copy that changes when the source does."""
    status = source.stat()
    facts = (size, LONGEST_SIDE, str(source.resolve()), status.st_size, status.st_mtime_ns)
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def write_copy(path: Path, source: Path, size: ImageSize) -> None:
    """Write a WebP copy atomically: other processes never see half of it."""
    image = decode(source)
    is_lossless = image.format == "PNG"
    picture = upright(image)
    if size == "thumbnail":
        picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Resampling.LANCZOS)
        options: dict[str, Any] = {"quality": 84, "method": 3}
    else:
        options = {"lossless": True, "quality": 20} if is_lossless else {"quality": 95}
    picture.info.clear()
    file = NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False)  # noqa: SIM115
    try:
        with file:
            picture.save(file, "WEBP", **options)
        os.replace(file.name, path)  # noqa: PTH105 (a name, not a Path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


def cache_folder(database: Database) -> Path:
    """Beside a SQLite file, otherwise in the user's cache folder."""
    url = database.engine.url
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        file = Path(str(url.database))
        return file.with_name(f"{file.name}.thumbnails")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hsfiq" / "thumbnails"


class ImageStore:
    """The image folders of all datasets; each is listed once, on first use."""

    def __init__(self, copies: WebCopies) -> None:
        self._copies = copies
        self._folders: dict[int, ImageFolder | None] = {}
        self._lock = Lock()

    def file_of(self, session: Session, image: Image, size: ImageSize = "thumbnail") -> Path | None:
        """The file to serve, None if the image's file is missing or cannot be decoded."""
        folder = self._folder(session, image.dataset_id)
        path = folder.find(image.name) if folder else None
        return self._copies.of(path, size) if path and path.is_file() else None

    def _folder(self, session: Session, dataset_id: int) -> ImageFolder | None:
        with self._lock:
            if dataset_id not in self._folders:
                root = session.get_one(Dataset, dataset_id).image_root
                self._folders[dataset_id] = ImageFolder(Path(root)) if root else None
            return self._folders[dataset_id]


def image_response(session: Session, store: ImageStore, token: str, size: ImageSize) -> Response:
    """The image with this token, or status 404.

    No ETag and no Last-Modified: a file's date can identify it as well as its name.
    """
    content = practice.image_content(token)
    if content is None and TOKEN.fullmatch(token):
        image = session.scalars(select(Image).where(Image.token == token)).one_or_none()
        path = store.file_of(session, image, size) if image else None
        content = path.read_bytes() if path else None
    if content is None:
        return Response(status_code=404, headers={"Cache-Control": "no-store"})
    return Response(content, media_type="image/webp", headers=HEADERS)
