"""Checks whether untrusted Parquet files can be opened; run as a program in a separate process.

Some footers make pyarrow abort its process, and pyarrow decompresses pages of any size. Therefore
this program opens the files first, under a memory limit; its parent sets a time limit. It imports
no module of this project.

It reads a JSON list of paths from standard input. As soon as it has examined a file, it prints one
line of JSON: null, or the reason why the file cannot be read.
"""

from __future__ import annotations

import json
import sys
from io import BufferedReader
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

if sys.platform != "win32":
    import resource

MEMORY = 2**30
"""Bytes that the program may allocate in addition to those it has at its start."""
ROWS_AT_ONCE = 10_000
LONGEST_HEADER = 2**24
SPARE_BYTES = 2**16
"""Bytes by which a column's pages may exceed the size in the footer."""
MOST_NESTED = 20

# Types of Thrift's compact protocol
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
UNCOMPRESSED_SIZE, COMPRESSED_SIZE = 2, 3
"""The numbers of fields in the header of a page."""


def limit_memory() -> None:
    if sys.platform == "win32":
        return
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except OSError:  # macOS, which does not apply the limit, either
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = pages * resource.getpagesize() + MEMORY
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def problem_of(path: Path) -> str | None:
    """The fault of a Parquet file; None if it can be opened and its lists can be read."""
    try:
        with pq.ParquetFile(path) as file:
            chunks, lists = chunks_of(file.metadata), lists_of(file.metadata)
        with path.open("rb") as content:
            for chunk in chunks:
                check_pages(content, *chunk)
        if lists:
            read_lists(path, lists)
    except (pa.ArrowException, OSError, ValueError, IndexError, MemoryError) as error:
        return " ".join(str(error).split())[:200] or type(error).__name__
    return None


def chunks_of(metadata: pq.FileMetaData) -> list[tuple[int, int, int]]:
    """Of each chunk of a column: where it starts, its bytes, and these when decompressed.

    No page of a chunk without values is ever read, and such a chunk may have no valid start.
    """
    chunks = []
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(metadata.num_columns):
            column = row_group.column(place)
            if column.num_values <= 0:
                continue
            start = column.data_page_offset
            dictionary = column.dictionary_page_offset or 0
            if column.has_dictionary_page and 0 < dictionary < start:
                start = dictionary
            chunks.append((start, column.total_compressed_size, column.total_uncompressed_size))
    return chunks


def lists_of(metadata: pq.FileMetaData) -> list[str]:
    """The columns whose values are lists of texts.

    Those of several dictionaries are only read with all their texts written out.
    """
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    return [
        column.path
        for column in columns
        if column.max_repetition_level and column.physical_type == "BYTE_ARRAY"
    ]


def read_lists(path: Path, columns: list[str]) -> None:
    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches(ROWS_AT_ONCE, columns=columns, use_threads=False):
            pass


def check_pages(file: BufferedReader, start: int, n_bytes: int, most: int) -> None:
    """Raise `ValueError` if the pages of a chunk are larger than the footer says."""
    place, end, size = start, start + n_bytes, 0
    if start < 0 or n_bytes < 0:
        raise ValueError("a column is outside the file")
    while place < end:
        header, n_header = page_header(file, place)
        uncompressed, compressed = (
            header.get(UNCOMPRESSED_SIZE, -1),
            header.get(COMPRESSED_SIZE, -1),
        )
        if uncompressed < 0 or compressed < 0:
            raise ValueError("a page has no size")
        place += n_header + compressed
        size += n_header + uncompressed
        if size > most + SPARE_BYTES or place > end:
            raise ValueError("a column has larger pages than the footer says")


# ------------------------------------------------------------------------------------------ headers


def page_header(file: BufferedReader, place: int) -> tuple[dict[int, int], int]:
    """The whole numbers in the header of the page at a place, by field, and the header's bytes."""
    n_bytes = 256
    while True:
        file.seek(place)
        content = file.read(n_bytes)
        try:
            header = Header(content)
            return header.struct(), header.place
        except IndexError:
            if len(content) < n_bytes or n_bytes >= LONGEST_HEADER:
                raise ValueError("a page has no header") from None
            n_bytes *= 16


class Header:
    """Reads Thrift's compact protocol; `IndexError` where the bytes end."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Read a struct; return its whole numbers, by field."""
        numbers: dict[int, int] = {}
        field = 0
        while kind := self.byte():
            kind, step = kind & 15, kind >> 4
            field = field + step if step else self.signed()
            if kind in (I16, I32, I64):
                numbers[field] = self.signed()
            elif kind not in (TRUE, FALSE):
                self.skip(kind, depth + 1)
        return numbers

    def skip(self, kind: int, depth: int) -> None:
        if depth > MOST_NESTED:
            raise ValueError("the header of a page is nested too deeply")
        if kind in (TRUE, FALSE, BYTE):  # of a list, where truth takes a byte
            self.byte()
        elif kind in (I16, I32, I64):
            self.unsigned()
        elif kind == DOUBLE:
            self.pass_by(8)
        elif kind == BINARY:
            self.pass_by(self.unsigned())
        elif kind in (LIST, SET):
            first = self.byte()
            n = first >> 4 if first >> 4 < 15 else self.unsigned()
            for _ in range(n):
                self.skip(first & 15, depth + 1)
        elif kind == STRUCT:
            self.struct(depth)
        else:  # no header has a map
            raise ValueError("a page has no header")

    def pass_by(self, n_bytes: int) -> None:
        self.place += n_bytes
        if self.place > len(self.content):
            raise IndexError

    def byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 127) << shift
            shift += 7
            if part < 128:
                return value
            if shift > 63:
                raise ValueError("a number in the header of a page is too long")

    def signed(self) -> int:
        value = self.unsigned()
        return value >> 1 ^ -(value & 1)


if __name__ == "__main__":
    limit_memory()
    for path in json.load(sys.stdin):
        sys.stdout.write(f"{json.dumps(problem_of(Path(path)))}\n")
        sys.stdout.flush()
