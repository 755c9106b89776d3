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

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from hsfiq.annotate.images.copies import WebCopies
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.tables import Study
from hsfiq.images.faults import Fault
from hsfiq.images.folder import ImageFolder
from hsfiq.study.images import image_root, shown_pairs

AHEAD = 4
"""The most files per thread that wait; the limit of decoding memory holds for all threads."""

LOOK_AGAIN = 60.0
"""Seconds after which the server looks for new studies."""

LOWEST_PRIORITY = 19

Track = Callable[[Sequence[Path]], Iterable[Path]]


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


def image_files_of(session: Session, study: Study) -> tuple[list[Path], int]:
    """The files of the images that a study shows, first shown first, and how many are missing."""
    names = dict.fromkeys(chain.from_iterable(
        sorted(pair.images) for pair in shown_pairs(session, study)
    ))  # fmt: skip
    root = image_root(session, study)
    folder = ImageFolder(root) if root else None
    files = [path for name in names if folder and (path := folder.find(name))]
    return files, len(names) - len(files)


def make_thumbnails(
    files: Sequence[Path], copies: WebCopies, ended: Event, track: Track = iter
) -> Warmed:
    """Make the thumbnails that do not exist, in as many threads as there are cores.

    When `ended` is set, those that are being made are finished. `track` iterates over the files,
    for a progress bar.
    """
    warmed = Warmed()
    threads = os.cpu_count() or 1
    pending: deque[Future[tuple[Path | Fault, bool]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for path in track(files):
            if ended.is_set():
                break
            pending.append(pool.submit(thumbnail, path, copies))
            if len(pending) >= threads * AHEAD:
                warmed.add(pending.popleft().result())
        for future in pending:
            if not (ended.is_set() and future.cancel()):
                warmed.add(future.result())
    return warmed


def thumbnail(path: Path, copies: WebCopies) -> tuple[Path | Fault, bool]:
    """The thumbnail of a file, or its fault, and whether the thumbnail existed before."""
    existed = copies.has(path, "thumbnail")
    return copies.of(path, "thumbnail"), existed


@contextmanager
def warming(database: Database, copies: WebCopies) -> Iterator[None]:
    """Within the block, make the thumbnails of all studies, one at a time, at the lowest priority.

    Leaving the block waits for the one that is being made.
    """
    ended = Event()
    thread = Thread(target=keep_warm, args=(database, copies, ended), name="thumbnails")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def keep_warm(database: Database, copies: WebCopies, ended: Event) -> None:
    """Make the thumbnails of every study that can take answers; later, of new ones."""
    lower_priority()
    done = set[int]()
    while not ended.is_set():
        try:
            with database.reading() as session:
                studies = {study.id: study for study in list_studies(session)}
                files = [
                    path
                    for key, study in studies.items()
                    if key not in done and study.origin != "imported" and study.status != "closed"
                    for path in image_files_of(session, study)[0]
                ]
            for path in files:
                if ended.is_set():
                    return
                thumbnail(path, copies)
            done.update(studies)
        except (SQLAlchemyError, OSError):
            pass  # the database or the disk is busy or full: pages make what they show
        ended.wait(LOOK_AGAIN)


def lower_priority() -> None:
    """Give this thread the lowest priority; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), LOWEST_PRIORITY)
