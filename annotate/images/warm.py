"""Thumbnails made before the pages ask for them: by a command, or by the server when it is idle."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Event, Thread, get_native_id

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.annotate.images.copies import WebCopies
from hsfiq.annotate.images.store import ImageStore
from hsfiq.collect.studies import list_studies
from hsfiq.db import source_tables
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.errors import Unavailable
from hsfiq.images.folder import Fault, ImageFolder
from hsfiq.study.images import dataset_of, root_of, shown_pairs

AHEAD = 4
"""The most files per thread that wait; the limit of decoding memory holds for all threads."""

LOOK_AGAIN = 60.0
"""Seconds after which the server looks for new studies."""

LOWEST_PRIORITY = 19


@dataclass(slots=True)
class Warmed:
    """The numbers of thumbnails, and the bytes of all that are there now."""

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

    path: Path
    token: str
    sha256: str | None


Track = Callable[[Sequence[ImageFile]], Iterable[ImageFile]]


def image_files_of(session: Session, study: Study) -> tuple[list[ImageFile], int]:
    """The files of the images that a study shows, first shown first, and how many are missing."""
    names = dict.fromkeys(chain.from_iterable(
        sorted(pair.images) for pair in shown_pairs(session, study)
    ))  # fmt: skip
    dataset = dataset_of(session, study)
    root = root_of(dataset)
    if dataset is None or root is None:
        return [], len(names)
    folder = ImageFolder(root)
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

    When `ended` is set, those that are being made are finished. `track` iterates over the files,
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
    """Make the thumbnails of every study that can take answers; later, of new ones."""
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
                    for file in image_files_of(session, study)[0]
                ]
            for file in files:
                if ended.is_set():
                    return
                images.copy_of(file.path, file, "thumbnail")
            done.update(studies)
        except (Unavailable, SQLAlchemyError, OSError):
            pass  # the database or the disk is busy, full or away: pages make what they show
        ended.wait(LOOK_AGAIN)


def lower_priority() -> None:
    """Give this thread the lowest priority; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LOWEST_PRIORITY)
