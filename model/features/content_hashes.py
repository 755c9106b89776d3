"""The sha256 of image files, remembered so that unchanged files need not be read again."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import SETTLED_NS

_Stamp: TypeAlias = tuple[int, int, int]
_Known: TypeAlias = dict[str, tuple[_Stamp, str]]


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of image files, by image id."""

    sha256: dict[str, str]
    unreadable: dict[str, str]
    """The reason, in one line."""
    fresh: _Known
    """Hashes read just now that may be remembered, by path."""


class ContentMemo:
    """The sha256 of files by path, valid while their size and times stay the same.

    Besides the modification time it compares `st_ctime_ns`, which no program can set: that reveals
    a file replaced by one of the same size and date.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.time_ns) -> None:
        """Remember in an SQLite file, which may be deleted at any time; `clock` as `time_ns`."""
        self.path = path
        self._clock = clock

    def read(self, images: Mapping[str, Path], *, workers: int) -> Contents:
        """Hash every image file, or look its hash up; writes nothing."""
        known, now = self._load(), self._clock()
        with ThreadPoolExecutor(workers) as pool:
            outcomes = pool.map(lambda path: _read(path, known), images.values())
            contents = Contents({}, {}, {})
            for (image_id, path), outcome in zip(images.items(), outcomes, strict=True):
                if isinstance(outcome, str):
                    contents.unreadable[image_id] = outcome
                    continue
                stamp, sha256 = outcome
                contents.sha256[image_id] = sha256
                name = str(path.absolute())
                if known.get(name) != outcome and now - max(stamp[1:]) > SETTLED_NS:
                    contents.fresh[name] = (stamp, sha256)
        return contents

    def remember(self, contents: Contents) -> None:
        """Store the hashes read just now; UnreadableInput if the file cannot be written."""
        if not contents.fresh:
            return
        rows = [(path, *stamp, sha256) for path, (stamp, sha256) in contents.fresh.items()]
        with self._opened() as connection, connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size INTEGER,"
                " modified_ns INTEGER, changed_ns INTEGER, sha256 TEXT)"
            )
            connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)

    def _load(self) -> _Known:
        if not self.path.exists():
            return {}
        with self._opened() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                return {}
            return {
                path: ((size, modified, changed), sha256)
                for path, size, modified, changed, sha256 in connection.execute(
                    "SELECT path, size, modified_ns, changed_ns, sha256 FROM files"
                )
            }

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as connection:
                yield connection
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            remedy = "delete it (it only saves time) or name another folder"
            raise UnreadableInput(str(self.path), f"cannot be used ({reason})", remedy) from error


def _read(path: Path, known: _Known) -> tuple[_Stamp, str] | str:
    try:
        status = path.stat()
        # Before reading: a file that changes meanwhile has another stamp the next time.
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        remembered = known.get(str(path.absolute()))
        if remembered is not None and remembered[0] == stamp:
            return remembered
        with path.open("rb") as file:
            return stamp, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return str(UnreadableInput(str(path), f"cannot be read ({error.strerror})"))
