"""The WebP copies of image files: made once, kept on the disk, made again if the file changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from threading import BoundedSemaphore, Condition
from typing import Any, Final, Literal

from PIL.Image import Image, Resampling

from hsfiq.db.engine import Database
from hsfiq.db.sqlite import file_of, make_folder_private
from hsfiq.images.check import change_of, sha256_of
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.display import displayable
from hsfiq.images.folder import CHANGED, Fault
from hsfiq.images.stored_copies import SUFFIX, clear_abandoned, read_copy, write_copy

ImageSize = Literal["thumbnail", "full"]

LONGEST_SIDE: Final[dict[ImageSize, int]] = {"thumbnail": 512, "full": 4096}
"""Pixels of a copy. Thumbnails are sharp in the page's boxes on a high-resolution screen; larger
full images would take seconds to make, and hundreds of megabytes in the browser."""

LOSSLESS_PIXELS = 4_000_000
"""Larger copies are never lossless: that takes seconds and 27 bytes of memory a pixel."""

FULL_AT_ONCE = 2
"""Full images made at the same time: encoding one takes up to 300 MB."""

VERSION = 2
"""Increased when copies look different, so that those on the disk are made again."""

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KnownCopy:
    """The copy of a file as it was at this stamp, or why there is none.

    `recorded` is the digest that the file was compared with.
    """

    stamp: Stamp
    recorded: str | None
    copy: Path | Fault

    def is_valid(self, stamp: Stamp, recorded: str | None) -> bool:
        if (self.stamp, self.recorded) != (stamp, recorded):
            return False
        return isinstance(self.copy, Fault) or self.copy.is_file()


class WebCopies:
    """Makes and finds copies; several threads may ask for the same one.

    `n_made` is how many this process has made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[Path, ImageSize], KnownCopy] = {}
        self._digests: dict[Path, tuple[Stamp, str]] = {}
        self._in_progress: set[tuple[Path, ImageSize]] = set()
        self._finished = Condition()
        self._full_slots = BoundedSemaphore(FULL_AT_ONCE)
        self.n_made = 0
        try:
            make_folder_private(folder)
            with TemporaryFile(dir=folder):
                pass
            clear_abandoned(folder)
        except OSError:  # not writable: keep the copies for the life of this process
            self._folder = Path(mkdtemp(prefix="hsfiq-thumbnails-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """The folder of the copies; a temporary one if the chosen one is not writable."""
        return self._folder

    def has(self, source: Path, size: ImageSize, recorded: str | None = None) -> bool:
        """Whether the copy of a file as it is now exists already, undamaged; see `of`."""
        digest = self.digest_of(source) if recorded is None else recorded
        return not isinstance(digest, Fault) and read_copy(self._path(size, digest)) is not None

    def read(self, copy: Path) -> bytes | None:
        """The content of a copy's file; if it is damaged None, and `of` makes it again."""
        content = read_copy(copy)
        if content is None:
            for key, known in list(self._known.items()):
                if known.copy == copy:
                    self._known.pop(key, None)
        return content

    def digest_of(self, source: Path) -> str | Fault:
        """The SHA-256 of a file's bytes, which are read again when the file has a new stamp."""
        stamp = stamp_of(source)
        if isinstance(stamp, Fault):
            return stamp
        known = self._digests.get(source)
        if known is not None and known[0] == stamp:
            return known[1]
        digest = sha256_of(source)
        if not isinstance(digest, Fault):
            self._digests[source] = stamp, digest
        return digest

    def of(self, source: Path, size: ImageSize, recorded: str | None = None) -> Path | Fault:
        """The copy's file, made if needed; a fault if the source cannot be displayed.

        `recorded` is the digest of the bytes that the source should have; a source with other bytes
        is a fault.
        """
        stamp = stamp_of(source)
        if isinstance(stamp, Fault):
            return stamp
        key = (source, size)
        known = self._known.get(key)
        if known is not None and known.is_valid(stamp, recorded):
            return known.copy
        with self._finished:
            self._finished.wait_for(lambda: key not in self._in_progress)
            known = self._known.get(key)
            if known is not None and known.is_valid(stamp, recorded):
                return known.copy
            self._in_progress.add(key)
        try:
            copy = self._made(source, size, recorded)
            if not (isinstance(copy, Fault) and copy.kind == "unreadable"):
                self._known[key] = KnownCopy(stamp, recorded, copy)
            return copy
        finally:
            with self._finished:
                self._in_progress.remove(key)
                self._finished.notify_all()

    def _path(self, size: ImageSize, digest: str) -> Path:
        return self._folder / f"{copy_name(size, digest)}{SUFFIX}"

    def _made(self, source: Path, size: ImageSize, recorded: str | None) -> Path | Fault:
        digest = self.digest_of(source)
        if isinstance(digest, Fault):
            return digest
        if recorded not in (None, digest):
            return CHANGED
        path = self._path(size, digest)
        if read_copy(path) is not None:
            return path
        try:
            if size == "thumbnail":
                make_copy(path, source, size, digest)
            else:
                with self._full_slots:
                    make_copy(path, source, size, digest)
        except UndecodableImage as error:
            return error.fault
        with self._finished:
            self.n_made += 1
        return path


def stamp_of(source: Path) -> Stamp | Fault:
    """What changes when a file is changed or replaced.

    No program can set the time of the last status change, so a file that is replaced by one of the
    same size and date is noticed, too.
    """
    try:
        status = source.stat()
    except FileNotFoundError:
        return Fault("missing", "has been removed")
    except OSError as error:
        return Fault("unreadable", f"cannot be read ({error.strerror})")
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def copy_name(size: ImageSize, digest: str) -> str:
    """A copy belongs to the bytes from which it was made, wherever their file is."""
    facts = (VERSION, size, LONGEST_SIDE[size], digest)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:40]


def make_copy(path: Path, source: Path, size: ImageSize, digest: str) -> None:
    """Make the copy of a file.

    `UndecodableImage` also if the source no longer has the bytes with this digest: it may have been
    replaced while it was decoded.
    """
    picture, options = reduced(source, size)
    if (fault := change_of(source, digest)) is not None:
        raise UndecodableImage(fault)
    content = BytesIO()
    picture.save(content, "WEBP", **options)
    make_folder_private(path.parent)
    write_copy(path, content.getvalue())


def reduced(source: Path, size: ImageSize) -> tuple[Image, dict[str, Any]]:
    """The picture of a copy without metadata, and the options of its encoding."""
    side = LONGEST_SIDE[size]
    with decoded(source, at_least=2 * side) as image:
        is_png, is_reduced = image.format == "PNG", max(image.size) > side
        picture = displayable(image)
        del image  # what is not needed any more must not take memory when the block ends
        picture.thumbnail((side, side), Resampling.LANCZOS)
    picture.info.clear()
    if size == "thumbnail":
        return picture, {"quality": 84, "method": 2}  # half of the time of 3, 3 % larger
    if is_png and not is_reduced and picture.width * picture.height <= LOSSLESS_PIXELS:
        return picture, {"lossless": True, "quality": 20}
    return picture, {"quality": 95, "method": 2}


def cache_folder(database: Database) -> Path:
    """Beside a SQLite file, otherwise in the user's cache folder."""
    url = database.engine.url
    file = file_of(url) if url.get_backend_name() == "sqlite" else None
    if file is not None:
        return file.with_name(f"{file.name}.thumbnails")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hsfiq" / "thumbnails"
