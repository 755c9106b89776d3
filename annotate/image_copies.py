"""WebP copies of images: making them, keeping them on disk, and noticing changed files."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from threading import BoundedSemaphore, Condition, Event, Lock, Thread, get_native_id
from typing import Any, Final, Literal, Protocol

from PIL.Image import Image, Resampling
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.collect.asked_questions import ShownImage
from hsfiq.collect.studies import list_studies
from hsfiq.db import source_tables
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, ImageChange
from hsfiq.db.sqlite import file_of, make_folder_private
from hsfiq.db.tables import Study
from hsfiq.errors import Unavailable
from hsfiq.images.check import change_of, sha256_of
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.display import displayable
from hsfiq.images.folder import CHANGED, Fault
from hsfiq.images.store import AWAY, Images, Original, StoreFolder, open_images, root_named
from hsfiq.images.stored_copies import BoundedFolder, clear_abandoned, read_copy, write_copy
from hsfiq.study.images import dataset_of, root_of, shown_pairs

# Images whose files were found changed: stored, so that the owner sees them.

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
        """Store the copies that are not stored yet."""
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


# The WebP copies of image files: made once, kept on the disk, made again if the file changes.

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

Stamp = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class KnownCopy:
    """The copy of a file at this stamp, or the reason why there is none.

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
        self._known: dict[tuple[Original, ImageSize], KnownCopy] = {}
        self._digests: dict[Original, tuple[Stamp, str]] = {}
        self._in_progress: set[tuple[Original, ImageSize]] = set()
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
        self._bounded = BoundedFolder(self._folder)

    @property
    def folder(self) -> Path:
        """The folder of the copies; a temporary one if the chosen one is not writable."""
        return self._folder

    def has(self, source: Original, size: ImageSize, recorded: str | None = None) -> bool:
        """Whether an undamaged copy of the file's current content exists; see `of`."""
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

    def digest_of(self, source: Original) -> str | Fault:
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

    def of(self, source: Original, size: ImageSize, recorded: str | None = None) -> Path | Fault:
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
            if copy == AWAY and recorded is not None:
                # What was recorded is shown while the store does not answer.
                kept = self._path(size, recorded)
                return AWAY if read_copy(kept) is None else kept
            if not (isinstance(copy, Fault) and copy.kind == "unreadable"):
                self._known[key] = KnownCopy(stamp, recorded, copy)
            return copy
        finally:
            with self._finished:
                self._in_progress.remove(key)
                self._finished.notify_all()

    def _path(self, size: ImageSize, digest: str) -> Path:
        return self._folder / f"{copy_name(size, digest)}.webp"

    def known_fault(self, source: Original, size: ImageSize, recorded: str | None) -> Fault | None:
        """The fault that `of` has found in the source's content, which is not read again."""
        known, stamp = self._known.get((source, size)), stamp_of(source)
        if known is None or isinstance(stamp, Fault) or not known.is_valid(stamp, recorded):
            return None
        return known.copy if isinstance(known.copy, Fault) else None

    def _made(self, source: Original, size: ImageSize, recorded: str | None) -> Path | Fault:
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
        with suppress(OSError):
            self._bounded.has_grown(path.stat().st_size)
        return path


def stamp_of(source: Original) -> Stamp | Fault:
    """A stamp that changes when a file is changed or replaced; for a store, as last listed.

    No program can set the time of the last status change, so a file that is replaced by one of the
    same size and date is noticed, too.
    """
    if not isinstance(source, Path):
        return source.size, source.version
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


def make_copy(path: Path, source: Original, size: ImageSize, digest: str) -> None:
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


def reduced(source: Original, size: ImageSize) -> tuple[Image, dict[str, Any]]:
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


# The image folders of all datasets; each is listed once, and again when an image is missing.


class ImageContent(Protocol):
    """An image's address, and the digest of its file, None if it is not recorded."""

    @property
    def token(self) -> str: ...
    @property
    def sha256(self) -> str | None: ...


class StoredImage(ImageContent, Protocol):
    """An image, or its known properties."""

    @property
    def dataset_id(self) -> int: ...
    @property
    def name(self) -> str: ...


class ImageStore:
    """Finds images' copies; a missing or broken image is looked for again at each request.

    An image whose file no longer has the recorded bytes is not shown, and is kept in `changes`.
    `known` are images that have been looked up, by token.
    """

    def __init__(self, copies: WebCopies) -> None:
        self.copies = copies
        self.changes = FoundChanges()
        self.known: dict[str, ShownImage] = {}
        self._roots: dict[int, str | None] = {}
        self._folders: dict[str, Images] = {}
        self._lock = Lock()

    def file_of(
        self, session: Session, image: StoredImage, size: ImageSize = "thumbnail"
    ) -> Path | Fault:
        """The file to serve; a fault if the image's file is missing or cannot be displayed."""
        known = self._roots.get(image.dataset_id)
        copy = self._copy_below(known, image, size)
        if isinstance(copy, Fault):
            root = self._find_root(session, image.dataset_id)
            if root != known:
                return self._copy_below(root, image, size)
        return copy

    def is_missing(self, session: Session, image: StoredImage) -> bool:
        """Whether pages show an image as missing. A store is not read for this: the page asks."""
        root = self._roots.get(image.dataset_id) or self._find_root(session, image.dataset_id)
        folder = None if root is None else self.folder_at(root)
        if not isinstance(folder, StoreFolder):
            return isinstance(self.file_of(session, image), Fault)
        source = folder.find(image.name)
        if source is None:
            folder.refresh()
            return folder.is_listed
        return self.copies.known_fault(source, "thumbnail", image.sha256) is not None

    def content_where_known(self, image: StoredImage, size: ImageSize) -> bytes | Fault:
        """The copy to send, from the last known folder of the dataset.

        A damaged copy is made again.
        """
        for _ in range(2):
            copy = self._copy_below(self._roots.get(image.dataset_id), image, size)
            if isinstance(copy, Fault):
                return copy
            content = self.copies.read(copy)
            if content is not None:
                return content
        return Fault("unreadable", "its copy cannot be read")

    def look_up(self, session: Session, token: str) -> ShownImage | None:
        """The image with this token, and its dataset's folder, as the database has them."""
        image = session.scalars(
            select(source_tables.Image).where(source_tables.Image.token == token)
        ).one_or_none()
        if image is None:
            return None
        self._find_root(session, image.dataset_id)
        self.known[token] = ShownImage(image.dataset_id, image.name, token, image.sha256)
        return self.known[token]

    def digest_of(self, session: Session, image: StoredImage) -> str | None:
        """The digest of an image's content: the recorded one, otherwise that of its file."""
        if image.sha256 is None and image.dataset_id not in self._roots:
            self._find_root(session, image.dataset_id)
        return self.digest_where_known(image)

    def digest_where_known(self, image: StoredImage) -> str | None:
        """Like `digest_of`, in the last known folder of the dataset."""
        if image.sha256 is not None:
            return image.sha256
        source = self.source_of(image)
        digest = None if source is None else self.copies.digest_of(source)
        return None if isinstance(digest, Fault) else digest

    def source_of(self, image: StoredImage) -> Original | None:
        """The image's own file in the last known folder; None if there is none."""
        root = self._roots.get(image.dataset_id)
        return None if root is None else self.folder_at(root).find(image.name)

    def copy_of(self, source: Original, image: ImageContent, size: ImageSize) -> Path | Fault:
        """The copy of an image whose file is known, made if needed."""
        copy = self.copies.of(source, size, image.sha256)
        if isinstance(copy, Fault) and copy.kind == "changed" and image.sha256 is not None:
            self.changes.add(image.token)
        return copy

    def _find_root(self, session: Session, dataset_id: int) -> str | None:
        """A dataset's folder, read from the database."""
        root = session.scalar(select(Dataset.image_root).where(Dataset.id == dataset_id))
        self._roots[dataset_id] = root
        return root

    def _copy_below(self, root: str | None, image: StoredImage, size: ImageSize) -> Path | Fault:
        """The copy of an image in this folder, made if needed."""
        if root is None:
            return Fault("missing", "its dataset has no image folder")
        folder = self.folder_at(root)
        copy = self._copy_in(folder, image, size)
        if isinstance(copy, Fault) and folder.refresh():
            copy = self._copy_in(folder, image, size)
        return copy

    def _copy_in(self, folder: Images, image: StoredImage, size: ImageSize) -> Path | Fault:
        source = folder.find(image.name)
        if source is None:
            return Fault("missing", "no file has this name")
        return self.copy_of(source, image, size)

    def folder_at(self, root: str) -> Images:
        """The images of a folder or of a store."""
        with self._lock:
            if root not in self._folders:
                self._folders[root] = open_images(root_named(root), waits=False)
            return self._folders[root]


# Thumbnails made before the pages ask for them: by a command, or by the server when it is idle.

AHEAD = 4
"""The most files per thread that wait; the limit of decoding memory holds for all threads."""

LOOK_AGAIN = 60.0
"""Seconds after which the server looks for new studies."""

LOWEST_PRIORITY = 19


@dataclass(slots=True)
class Warmed:
    """The numbers of thumbnails, and the bytes of all existing ones."""

    made: int = 0
    existed: int = 0
    faulty: int = 0
    bytes: int = 0

    def add(self, outcome: tuple[Path | Fault, bool]) -> None:
        copy, existed = outcome
        if isinstance(copy, Fault):
            self.faulty += 1
        else:
            self.made += not existed
            self.existed += existed
            self.bytes += copy.stat().st_size


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image's file, with the image's address and the digest that is recorded, if any."""

    path: Original
    token: str
    sha256: str | None


Track = Callable[[Sequence[ImageFile]], Iterable[ImageFile]]


def image_files_of(
    session: Session, study: Study, images: ImageStore | None = None
) -> tuple[list[ImageFile], int]:
    """The files of the images that a study shows, first shown first, and how many are missing.

    `images` are those of a server; a command lists the folder or the store itself.
    """
    names = dict.fromkeys(chain.from_iterable(
        sorted(pair.images) for pair in shown_pairs(session, study)
    ))  # fmt: skip
    dataset = dataset_of(session, study)
    root = root_of(dataset)
    if dataset is None or root is None:
        return [], len(names)
    folder = open_images(root) if images is None else images.folder_at(str(root))
    rows = session.execute(
        select(
            source_tables.Image.name, source_tables.Image.token, source_tables.Image.sha256
        ).where(source_tables.Image.dataset_id == dataset.id)
    )
    facts = {name: (token, sha256) for name, token, sha256 in rows if name in names}
    files = [ImageFile(path, *facts[name]) for name in names if (path := folder.find(name))]
    return files, len(names) - len(files)


def make_thumbnails(
    files: Sequence[ImageFile], copies: WebCopies, ended: Event, track: Track = iter
) -> Warmed:
    """Make the thumbnails that do not exist, in as many threads as there are cores.

    When `ended` is set, copies in progress are finished. `track` iterates over the files,
    for a progress bar.
    """
    warmed = Warmed()
    threads = os.cpu_count() or 1
    pending: deque[Future[tuple[Path | Fault, bool]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for file in track(files):
            if ended.is_set():
                break
            pending.append(pool.submit(thumbnail, file, copies))
            if len(pending) >= threads * AHEAD:
                warmed.add(pending.popleft().result())
        for future in pending:
            if not (ended.is_set() and future.cancel()):
                warmed.add(future.result())
    return warmed


def thumbnail(file: ImageFile, copies: WebCopies) -> tuple[Path | Fault, bool]:
    """The thumbnail of a file, or its fault, and whether the thumbnail existed before."""
    existed = copies.has(file.path, "thumbnail", file.sha256)
    return copies.of(file.path, "thumbnail", file.sha256), existed


@contextmanager
def warming(database: Database, images: ImageStore) -> Iterator[None]:
    """Within the block, make the thumbnails of all studies, one at a time, at the lowest priority.

    Leaving the block waits for the one that is being made.
    """
    ended = Event()
    thread = Thread(target=keep_warm, args=(database, images, ended), name="thumbnails")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def keep_warm(database: Database, images: ImageStore, ended: Event) -> None:
    """Make the thumbnails of every study that accepts answers, and later of new studies."""
    lower_priority()
    done = set[int]()
    while not ended.is_set():
        try:
            with database.reading() as session:
                studies = {study.id: study for study in list_studies(session)}
                files = [
                    file
                    for key, study in studies.items()
                    if key not in done and study.origin != "imported" and study.status != "closed"
                    for file in image_files_of(session, study, images)[0]
                ]
            is_away = False
            for file in files:
                if ended.is_set():
                    return
                is_away |= images.copy_of(file.path, file, "thumbnail") == AWAY
            if not is_away:
                done.update(studies)
        except (Unavailable, SQLAlchemyError, OSError):
            pass  # the database or the disk is busy, full or away: pages make what they show
        ended.wait(LOOK_AGAIN)


def lower_priority() -> None:
    """Give this thread the lowest priority; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LOWEST_PRIORITY)
