"""Derivatives of the images: made once, without metadata, kept beside the database.

A thumbnail is what the page shows, a full picture what it zooms into: all pixels of the original,
written anew so that no comment, path or place in the file reaches the browser.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from pathlib import Path
from tempfile import NamedTemporaryFile, mkdtemp
from threading import Lock
from typing import Any, Literal

from PIL import Image

from hsfiq.db.engine import Database
from hsfiq.images.decode import UndecodableImage, decode, upright

Kind = Literal["thumbnail", "full"]

LONGEST_SIDE = 512
"""Pixels of a thumbnail: sharp in the page's boxes on a dense screen."""


class Thumbnails:
    """The derivatives of image files, by the file's path, size and date."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready: dict[tuple[Path, Kind], Path | None] = {}
        self._lock = Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=folder):
                pass
        except OSError:  # a folder that is not ours to write in: then for this process only
            self._folder = Path(mkdtemp(prefix="hsfiq-thumbnails-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def of(self, source: Path, kind: Kind) -> Path | None:
        """The derivative's file, made now if it is not there; None if the image is no image."""
        key = (source, kind)
        with self._lock:
            known = self._ready.get(key, source)
        if known != source and (known is None or known.is_file()):
            return known
        made = self._made(source, kind)
        with self._lock:
            self._ready[key] = made
        return made

    def _made(self, source: Path, kind: Kind) -> Path | None:
        try:
            path = self._folder / f"{fingerprint(source, kind)}.webp"
            if not path.is_file():
                write_whole(path, source, kind)
        except (UndecodableImage, OSError, ValueError):
            return None
        return path


def fingerprint(source: Path, kind: Kind) -> str:
    """A name for the derivative that changes when the file does."""
    status = source.stat()
    facts = (kind, LONGEST_SIDE, str(source.resolve()), status.st_size, status.st_mtime_ns)
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:40]


def write_whole(path: Path, source: Path, kind: Kind) -> None:
    """Write the derivative; another process sees it whole or not at all."""
    image = decode(source)
    is_lossless = image.format == "PNG"
    picture = upright(image)
    if kind == "thumbnail":
        picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
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
    """Beside a SQLite file; for other databases in the user's cache."""
    url = database.engine.url
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        file = Path(str(url.database))
        return file.with_name(f"{file.name}.thumbnails")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hsfiq" / "thumbnails"
