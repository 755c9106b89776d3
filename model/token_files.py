"""The feature cache's files: rows of tokens, which are only appended, and their index."""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import torch
from torch import Tensor

from hsfiq.atomic_files import sha256_of, sync, write_whole
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.images.folder import SETTLED_NS
from hsfiq.model.encoders.encoder import FrozenEncoder, Preprocessing

# The sha256 of image files, remembered so that unchanged files need not be read again.

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
        return stamp, sha256_of(path)
    except OSError as error:
        return str(UnreadableInput(str(path), f"cannot be read ({error.strerror})"))


# The settings that a feature cache's tokens depend on.

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
"""The dtypes that tokens may be stored in."""

_VERSION = 2
"""Increase it when the same settings give other pixels or other files."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of P x W numbers and the settings that they were computed with."""

    encoder: str
    """Its readable name; `frozen_id` identifies its weights."""
    frozen_id: str
    preprocessing: Preprocessing
    dtype: torch.dtype
    shape: tuple[int, int]  # (P, W)

    @classmethod
    def of(cls, encoder: FrozenEncoder, dtype: torch.dtype) -> Layout:
        """The layout for an encoder; HsfiqError if tokens cannot be stored in this dtype."""
        if dtype not in DTYPES.values():
            raise HsfiqError(f"tokens are stored as one of {', '.join(DTYPES)}, not as {dtype}")
        frozen_id, shape = encoder.frozen_id(), encoder.tokens_shape
        return cls(encoder.name, frozen_id, encoder.preprocessing, dtype, shape)

    @property
    def row_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def key(self) -> str:
        """The name of the folder, different for different settings."""
        settings = {name: value for name, value in self.about().items() if name != "encoder"}
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def about(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "encoder": self.encoder,
            "frozen_id": self.frozen_id,
            "preprocessing": asdict(self.preprocessing),
            "dtype": dtype_name(self.dtype),
            "tokens_shape": list(self.shape),
        }


def dtype_name(dtype: torch.dtype) -> str:
    """`float16` of `torch.float16`."""
    return str(dtype).removeprefix("torch.")


# The files of one feature cache: rows of tokens, which are only appended, and their index.
#
#     about.json      the settings, for people
#     tokens.bin      a header of `HEADER_BYTES`, then rows of P x W numbers
#     index.sqlite3   content (sha256 of an image file) -> row
#     lock            held by the process that appends
#
# A row is indexed after it has reached the disk. Rows in `tokens.bin` after the last indexed one
# come from an interrupted process, and the next one overwrites them.

HEADER_BYTES = 4096
INDEX_BYTES_PER_ROW = 512
"""An upper bound for an entry of the index."""
SYNC_SHARE = 20
"""Rows are committed once this multiple of a commit's duration has passed since the last one: a
kill loses little if images are slow to encode, and commits cost little if they are fast."""


class TokenFiles:
    """The rows in a folder, indexed by content; the constructor writes nothing."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        """Read the index; UnreadableInput if the files are damaged or not of this cache."""
        self.folder = folder
        self.layout = layout
        self.row_of: dict[str, int] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read rows that another process has appended."""
        # The index before the rows: another process appends rows first.
        self.row_of = self._read_index()
        self._check_tokens()
        self._map_rows()

    def read(self, rows: Sequence[int]) -> Tensor:
        """Copy rows: [B, P, W] in the layout's dtype."""
        if not rows:
            return torch.empty((0, *self.layout.shape), dtype=self.layout.dtype)
        for row in rows:  # let the disk fetch them together, not one page at a time
            start = self.end_of(row)
            within = start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start - within, self.layout.row_bytes + within)
        mapped = np.frombuffer(self._map, dtype=np.uint8, offset=HEADER_BYTES)
        copied = np.take(mapped.reshape(-1, self.layout.row_bytes), rows, axis=0)
        return torch.from_numpy(copied).view(self.layout.dtype).view(-1, *self.layout.shape)

    def bytes_needed(self, n_rows: int) -> int:
        return HEADER_BYTES + n_rows * (self.layout.row_bytes + INDEX_BYTES_PER_ROW)

    @contextmanager
    def appending(self) -> Iterator[Appender]:
        """Append rows, after waiting for any other process that does; an error keeps them.

        Raises UnreadableInput if the folder cannot be written, or its disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._create()
                self.refresh()
                with self.tokens.open("r+b") as file, closing(self._connect()) as index:
                    appender = Appender(self, file, index)
                    try:
                        yield appender
                    finally:
                        appender.commit()
        except (OSError, sqlite3.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UnreadableInput(
                str(self.folder),
                f"cannot be written ({reason})",
                "correct this or name another folder",
            ) from error

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.bin"

    @property
    def index(self) -> Path:
        return self.folder / "index.sqlite3"

    def end_of(self, n_rows: int) -> int:
        return HEADER_BYTES + n_rows * self.layout.row_bytes

    def add(self, contents: Sequence[str]) -> None:
        self.row_of |= {content: len(self.row_of) + i for i, content in enumerate(contents)}
        self._map_rows()

    def _create(self) -> None:
        if not self.tokens.exists():
            write_whole(self.tokens, self._header())
        if not (self.folder / "about.json").exists():
            about = json.dumps(self.layout.about(), indent=2) + "\n"
            write_whole(self.folder / "about.json", about.encode())
        with closing(sqlite3.connect(self.index)) as index, index:
            index.execute(
                "CREATE TABLE IF NOT EXISTS rows (content TEXT PRIMARY KEY, row INTEGER UNIQUE)"
            )
        sync(self.folder)

    def _read_index(self) -> dict[str, int]:
        if not self.index.exists():
            return {}
        try:
            with closing(self._connect()) as index:
                if not index.execute("SELECT 1 FROM sqlite_master").fetchone():
                    return {}
                rows = dict(index.execute("SELECT content, row FROM rows ORDER BY row"))
        except sqlite3.Error as error:
            raise self._damaged(self.index, f"is damaged ({error})") from error
        if list(rows.values()) != list(range(len(rows))):
            raise self._damaged(self.index, "is damaged (rows are missing from it)")
        return rows

    def _check_tokens(self) -> None:
        if not self.tokens.exists():
            if self.row_of:
                damage = f"is missing, and {len(self.row_of)} rows are indexed"
                raise self._damaged(self.tokens, damage)
            return
        with self.tokens.open("rb") as file:
            if file.read(HEADER_BYTES) != self._header():
                raise self._damaged(self.tokens, "was not written for these settings")
        n_rows = (self.tokens.stat().st_size - HEADER_BYTES) // self.layout.row_bytes
        if n_rows < len(self.row_of):
            raise self._damaged(
                self.tokens, f"is truncated: {n_rows} rows of the {len(self.row_of)} indexed"
            )

    def _map_rows(self) -> None:
        if self.row_of:
            with self.tokens.open("rb") as file:
                end = self.end_of(len(self.row_of))
                self._map = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ)

    def _connect(self) -> sqlite3.Connection:
        # mode=rw does not create a missing index.
        return sqlite3.connect(f"{self.index.absolute().as_uri()}?mode=rw", uri=True, timeout=60)

    def _header(self) -> bytes:
        return f"hsfiq tokens\n{self.layout.key}\n".encode().ljust(HEADER_BYTES, b"\0")

    def _damaged(self, path: Path, damage: str) -> UnreadableInput:
        remedy = f"delete the folder {self.folder}: its tokens are then computed again"
        return UnreadableInput(str(path), damage, remedy)


class Appender:
    """Appends rows while the lock is held."""

    def __init__(self, files: TokenFiles, file: BinaryIO, index: sqlite3.Connection) -> None:
        """Cut off what a killed process left after the last indexed row."""
        self._files = files
        self._file = file
        self._index = index
        self._pending: list[str] = []
        self._next_commit = 0.0
        file.truncate(files.end_of(len(files.row_of)))
        file.seek(0, os.SEEK_END)

    def append(self, contents: Sequence[str], tokens: Tensor) -> None:
        """Append rows [B, P, W] for B images (sha256) without one, to be committed with others."""
        self._file.write(tokens.cpu().contiguous().view(torch.uint8).numpy().data)
        self._pending.extend(contents)
        if time.monotonic() >= self._next_commit:
            self.commit()

    def commit(self) -> None:
        """Flush the appended rows to the disk, and only then index them."""
        if not self._pending:
            return
        started = time.monotonic()
        contents, self._pending = self._pending, []
        self._file.flush()
        os.fsync(self._file.fileno())
        first = len(self._files.row_of)
        with self._index:
            self._index.executemany(
                "INSERT INTO rows VALUES (?, ?)",
                [(content, first + i) for i, content in enumerate(contents)],
            )
        self._files.add(contents)
        ended = time.monotonic()
        self._next_commit = ended + SYNC_SHARE * (ended - started)
