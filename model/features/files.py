"""The files of one feature cache: rows of tokens, appended, and the list of whose they are.

    about.json      the settings, for people
    tokens.bin      a header of `HEADER_BYTES`, then rows of P x W numbers
    index.sqlite3   content (sha256 of an image file) -> row
    lock            held by the process that appends

A row is listed after it has reached the disk: whatever lies in `tokens.bin` behind the last listed
row was on its way when a process ended, and is overwritten by the next.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from hsfiq.atomic_files import sync, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.features.layout import Layout

HEADER_BYTES = 4096
INDEX_BYTES_A_ROW = 512
"""More than an entry of the index takes."""
SYNC_SHARE = 20
"""Rows are made safe when this many times as long as that takes has passed since the last time:
a kill loses little where images are slow to compute, and the disk rests where they are fast."""


class TokenFiles:
    """The rows in a folder. Making one reads what is there and writes nothing."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        """Read the list of rows.

        Raises:
            UnreadableInput: the files are truncated, or not of this cache.
        """
        self.folder = folder
        self.layout = layout
        self.row_of: dict[str, int] = {}
        """Row by content."""
        self.refresh()

    def refresh(self) -> None:
        """Take in rows that another process has appended.

        Raises:
            UnreadableInput: the files are truncated, or not of this cache.
        """
        # The list before the rows: another process appends rows first.
        self.row_of = self._listed()
        self._check_tokens()
        self._map()

    def read(self, rows: Sequence[int]) -> Tensor:
        """Copy rows out of the mapping.

        Returns:
            [B, P, W] in the layout's dtype, B = len(rows).
        """
        if not rows:
            return torch.empty((0, *self.layout.shape), dtype=self.layout.dtype)
        self._mapped.ask_for(rows)
        taken = np.take(self._mapped.rows, np.asarray(rows, dtype=np.int64), axis=0)
        return torch.from_numpy(taken).view(self.layout.dtype).view(-1, *self.layout.shape)

    def bytes_needed(self, n_rows: int) -> int:
        """What `n_rows` more rows take on the disk, their entries in the index included."""
        return HEADER_BYTES + n_rows * (self.layout.row_bytes + INDEX_BYTES_A_ROW)

    @contextmanager
    def appending(self) -> Iterator[Appender]:
        """Append rows; waits for another process that does. What was appended is kept on errors.

        Raises:
            UnreadableInput: the folder cannot be written, or its disk is full.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._make()
                self.refresh()
                with self.tokens.open("r+b") as file, closing(self._connect()) as index:
                    appender = Appender(self, file, index)
                    try:
                        yield appender
                    finally:
                        appender.commit()
        except (OSError, sqlite3.Error) as error:
            said = error.strerror if isinstance(error, OSError) else error
            raise UnreadableInput(
                str(self.folder), f"cannot be written ({said})", "mend that or name another folder"
            ) from error

    @property
    def tokens(self) -> Path:
        """The file of rows."""
        return self.folder / "tokens.bin"

    @property
    def index(self) -> Path:
        """The file that lists them."""
        return self.folder / "index.sqlite3"

    def end_of(self, n_rows: int) -> int:
        """Where in the file of rows the first `n_rows` end, in bytes."""
        return HEADER_BYTES + n_rows * self.layout.row_bytes

    def add(self, contents: Sequence[str]) -> None:
        """Know the rows that have just been listed."""
        self.row_of |= {content: len(self.row_of) + i for i, content in enumerate(contents)}
        self._map()

    def _make(self) -> None:
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

    def _listed(self) -> dict[str, int]:
        if not self.index.exists():
            return {}
        try:
            with closing(self._connect()) as index:
                if not index.execute("SELECT 1 FROM sqlite_master").fetchone():
                    return {}
                listed = dict(index.execute("SELECT content, row FROM rows ORDER BY row"))
        except sqlite3.Error as error:
            raise self._anew(self.index, f"is damaged ({error})") from error
        if list(listed.values()) != list(range(len(listed))):
            raise self._anew(self.index, "is damaged (rows are missing from it)")
        return listed

    def _check_tokens(self) -> None:
        if not self.tokens.exists():
            if self.row_of:
                raise self._anew(self.tokens, f"is absent, and {len(self.row_of)} rows are listed")
            return
        with self.tokens.open("rb") as file:
            if file.read(HEADER_BYTES) != self._header():
                raise self._anew(self.tokens, "was not written for these settings")
        there = (self.tokens.stat().st_size - HEADER_BYTES) // self.layout.row_bytes
        if there < len(self.row_of):
            raise self._anew(
                self.tokens, f"is truncated: {there} rows of the {len(self.row_of)} listed"
            )

    def _map(self) -> None:
        self._mapped = _MappedRows(self.tokens, len(self.row_of), self.layout.row_bytes)

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: an index is never made by looking for it.
        return sqlite3.connect(f"{self.index.absolute().as_uri()}?mode=rw", uri=True, timeout=60)

    def _header(self) -> bytes:
        return f"hsfiq tokens\n{self.layout.key}\n".encode().ljust(HEADER_BYTES, b"\0")

    def _anew(self, path: Path, what: str) -> UnreadableInput:
        mend = f"delete the folder {self.folder}: its tokens are then computed anew"
        return UnreadableInput(str(path), what, mend)


class _MappedRows:
    """The first rows of a file, mapped into memory."""

    def __init__(self, path: Path, n_rows: int, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self.rows = np.empty((0, row_bytes), dtype=np.uint8)
        if n_rows:
            with path.open("rb") as file:
                end = HEADER_BYTES + n_rows * row_bytes
                self._map = mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ)
            mapped = np.frombuffer(self._map, dtype=np.uint8, offset=HEADER_BYTES)
            self.rows = mapped.reshape(n_rows, row_bytes)

    def ask_for(self, rows: Sequence[int]) -> None:
        """Let the disk fetch rows at once, not one page after the other."""
        for row in rows:
            start = HEADER_BYTES + row * self._row_bytes
            within = start % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, start - within, self._row_bytes + within)


class Appender:
    """Appends rows while the lock is held."""

    def __init__(self, files: TokenFiles, file: BinaryIO, index: sqlite3.Connection) -> None:
        """Cut off what a killed process left behind the last listed row."""
        self._files = files
        self._file = file
        self._index = index
        self._pending: list[str] = []
        self._next_commit = 0.0
        file.truncate(files.end_of(len(files.row_of)))
        file.seek(0, os.SEEK_END)

    def append(self, contents: Sequence[str], tokens: Tensor) -> None:
        """Append one row for each content; they are safe after the next commit.

        Args:
            contents: sha256 of images that have no row yet.
            tokens: [B, P, W] in the layout's dtype.
        """
        self._file.write(tokens.cpu().contiguous().view(torch.uint8).numpy().data)
        self._pending.extend(contents)
        if time.monotonic() >= self._next_commit:
            self.commit()

    def commit(self) -> None:
        """Make the appended rows safe, and only then list and show them."""
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
