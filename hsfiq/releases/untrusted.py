"""Safe opening of untrusted releases: bounds of files, JSON and tables.

A release has only regular files, all inside its folder. A table is read only if the size of its
values fits the files on disk: Parquet can encode ten million equal rows in a few bytes, but the
table's JSON lines contain the same rows, with at least two bytes for each value.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hsfiq.errors import UnreadableInput
from hsfiq.readers.files import parse_json, read_text
from hsfiq.text import is_storable_text

pc: Any = pyarrow.compute

LARGEST_JSON = 16 * 2**20
"""Bytes of a file whose JSON is read as a whole, such as manifest.json."""
LONGEST_NAME = 250
MOST_OF_HOLES = 2**20
"""Bytes of a file that may be holes: reading a large sparse file takes longer than making it.

Blocks on the disk are not compared, since a file system that compresses needs few for any file.
"""

REGULAR_ALONE = "a release has only regular files, all inside its folder"
OF_DOWNLOADS = {".gitattributes", ".cache"}
"""The folder that the Hugging Face hub adds to a download.

The folder may contain anything, such as links, so it is never opened, and no name in a release
refers to it.
"""

# ------------------------------------------------------------------------------------------- files


def require_regular_files(folder: Path) -> None:
    """Raise `UnreadableInput` for a link, a FIFO, a device or a sparse file in a folder."""
    for path in files_in(folder):
        problem = irregular(path)
        if problem is not None:
            raise UnreadableInput(str(path), problem, REGULAR_ALONE)


def files_in(folder: Path) -> Iterator[Path]:
    """The files and links in a folder and its subfolders; links are not followed."""
    for parent, folders, files in os.walk(folder):
        top = Path(parent) == folder
        folders[:] = sorted(name for name in folders if not (top and name in OF_DOWNLOADS))
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in sorted([*files, *links]):
            if not (top and name in OF_DOWNLOADS):
                yield Path(parent) / name


def irregular(path: Path) -> str | None:
    """The reason why a release cannot have this file; None if it can."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "is a symbolic link"
    if not stat.S_ISREG(mode):
        return "is not a regular file"
    if path.stat().st_size > MOST_OF_HOLES and is_sparse(path):
        return "is a sparse file"
    return None


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file and not a link; reading one never waits."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def is_sparse(path: Path) -> bool:
    if not hasattr(os, "SEEK_HOLE"):  # Windows
        return False
    with path.open("rb") as file:
        size, place, in_holes = path.stat().st_size, 0, 0
        while place < size:
            hole = os.lseek(file.fileno(), place, os.SEEK_HOLE)
            try:
                place = os.lseek(file.fileno(), hole, os.SEEK_DATA)
            except OSError:  # the hole reaches the end of the file
                place = size
            in_holes += place - hole
            if in_holes > MOST_OF_HOLES:
                return True
    return False


def is_inside(name: object) -> bool:
    """Whether a text names a file that a release's folder can have, on every system.

    >>> is_inside("parts/a-train.parquet"), is_inside("../a"), is_inside(".cache/a")
    (True, False, False)
    """
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        return False
    is_plain = name.isprintable() and is_storable_text(name) and "\\" not in name
    parts = name.split("/")
    return (
        is_plain
        and not {"", ".", ".."} & set(parts)
        and parts[0].lower() not in OF_DOWNLOADS
        and not PurePosixPath(name).is_absolute()
        and not PureWindowsPath(name).drive
    )


def read_bounded_json(path: Path) -> Any:
    """The JSON value of a small file; `UnreadableInput` if it is large, irregular or not JSON."""
    if not is_regular(path):
        what = irregular(path) if os.path.lexists(path) else "there is no such file"
        raise UnreadableInput(str(path), what or "cannot be read", REGULAR_ALONE)
    return bounded_json(path)


def bounded_json(path: Path) -> Any:
    """The JSON value of a file or link; `UnreadableInput` if it is large or not JSON."""
    if (size := path.stat().st_size) > LARGEST_JSON:
        what = f"has {size:,} bytes, but at most {LARGEST_JSON:,} are allowed"
        raise UnreadableInput(str(path), what)
    return parse_json(read_text(path), str(path))


# ------------------------------------------------------------------------------------------ tables

ROWS_AT_ONCE = 10_000
SPARE_BYTES = 2**24
"""Allowed for every table: Parquet's own parts, and tables of a few rows."""
MOST_COLUMNS = 1000
LEAST_OF_VALUE = 2
"""The fewest bytes of a value and its separator in JSON lines."""
TIMES_LARGER = 4
"""The most bytes of uncompressed Parquet per byte of JSON lines."""
REFUSED_ENCODINGS = {"DELTA_BYTE_ARRAY"}
"""In this encoding, a text may repeat the start of the previous one, so the file's size is no
bound."""

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The seconds since 1970 of the first and the last time that Python has: years 1 to 9999."""
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

DEADLINE = 60
"""Seconds in which all Parquet files of a release must be opened."""
NOT_OPENED = "cannot be read as Parquet (damaged or hostile)"


def unopened(paths: Sequence[Path]) -> dict[Path, str]:
    """The reasons why Parquet files cannot be opened, by file; files that can be opened are absent.

    Another process opens them: see `hsfiq.releases.parquet_probe`. If it is killed, the files that
    it has not examined count as unopened.
    """
    if not paths:
        return {}
    program = Path(__file__).with_name("parquet_probe.py")
    try:
        ended = subprocess.run(  # noqa: S603 -- a program of this package
            # With -P, the program's folder is not searched for modules.
            [sys.executable, "-P", str(program)],
            input=json.dumps([str(path.absolute()) for path in paths]),
            capture_output=True,
            encoding="utf-8",
            timeout=DEADLINE,
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"},
            check=False,
        )
        printed = ended.stdout
    except subprocess.TimeoutExpired as error:
        printed = bytes(error.stdout or b"").decode()
    results = [json.loads(line) for line in printed.split("\n")[:-1]]
    problems = {
        path: f"cannot be read ({shortened(result)})"
        for path, result in zip(paths, results, strict=False)
        if result is not None
    }
    rest = paths[len(results) :]
    if rest:
        problems[rest[0]] = NOT_OPENED
        problems |= dict.fromkeys(
            rest[1:], f"is not opened because {rest[0].name} cannot be opened"
        )
    return problems


def table_problem(path: Path) -> str | None:
    """The reason why a Parquet file cannot be read safely; None if it can.

    The file is read once, some rows at a time, with its texts in dictionaries: the sizes of the
    file and of its JSON lines bound the memory.
    """
    problem = irregular(path)
    if problem is not None:
        return problem
    try:
        with pq.ParquetFile(path) as file:
            problem = problem_of_sizes(path, file.metadata) or problem_of_types(file.schema_arrow)
            texts = text_columns(file.metadata)
        if problem is not None:
            return problem
        try:
            with pq.ParquetFile(path, read_dictionary=texts) as file:
                return problem_of_values(file, room(path))
        except pa.ArrowNotImplementedError:  # lists whose texts are in several dictionaries
            lists = {text for text in texts if "." in text}
            with pq.ParquetFile(path, read_dictionary=[t for t in texts if t not in lists]) as file:
                return problem_of_values(file, room(path))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        return f"cannot be read ({shortened(' '.join(str(error).split()))})"


def lines_of(path: Path) -> Path:
    return path.with_suffix(".jsonl")


def room(path: Path) -> int:
    """The bytes that the values of a table may take."""
    lines = lines_of(path)
    known = lines if is_regular(lines) else path
    return TIMES_LARGER * known.stat().st_size + SPARE_BYTES


def problem_of_sizes(path: Path, metadata: pq.FileMetaData) -> str | None:
    if metadata.num_columns > MOST_COLUMNS:
        most = f"but tables of releases have at most {MOST_COLUMNS:,}"
        return f"has {metadata.num_columns:,} columns, {most}"
    columns = columns_of(metadata)
    n_values = max(metadata.num_rows, sum(column.num_values for column in columns))
    lines = lines_of(path)
    if is_regular(lines):
        size = lines.stat().st_size
        if metadata.num_rows < 0 or n_values * LEAST_OF_VALUE > size:
            return f"declares {metadata.num_rows:,} rows, but {lines.name} has only {size:,} bytes"
    elif not 0 <= metadata.num_rows <= path.stat().st_size + ROWS_AT_ONCE:
        return f"declares {metadata.num_rows:,} rows in {path.stat().st_size:,} bytes"
    if (n_bytes := sum(column.total_uncompressed_size for column in columns)) > room(path):
        return f"declares {n_bytes:,} decompressed bytes, which is too much"
    encodings = {encoding for column in columns for encoding in column.encodings}
    if refused := REFUSED_ENCODINGS & encodings:
        return f"has the encoding {', '.join(refused)}, which releases do not use"
    return None


def columns_of(metadata: pq.FileMetaData) -> list[pq.ColumnChunkMetaData]:
    return [
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(metadata.num_columns)
    ]


def text_columns(metadata: pq.FileMetaData) -> list[str]:
    schema = metadata.schema
    columns = [schema.column(place) for place in range(metadata.num_columns)]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def problem_of_types(schema: pa.Schema) -> str | None:
    """A column that occurs twice, or whose values are neither simple nor lists of simple ones."""
    repeated = {name for name, n in Counter(schema.names).items() if n > 1}
    if repeated:
        return f"has the column {shortened(min(repeated))} twice"
    for field in schema:
        if not is_plain(field.type.value_type if is_list(field.type) else field.type):
            return f"has column {shortened(field.name)} of type {shortened(str(field.type))}"
    return None


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_primitive(kind) or any(
        is_of(kind)
        for is_of in (
            *(pa.types.is_null, pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string),
            *(pa.types.is_binary, pa.types.is_large_binary),
        )
    )


def problem_of_values(file: pq.ParquetFile, most_bytes: int) -> str | None:
    """Values that are invalid, outside Python's range, or larger than `most_bytes` together."""
    n_bytes, start = 0, 1
    for rows in batches_of(file):
        rows.validate(full=True)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            values = pc.list_flatten(column) if is_list(column.type) else column
            n_bytes += decoded_bytes(values)
            if n_bytes > most_bytes:
                return f"has more than {most_bytes:,} bytes of values up to row {start:,}"
            problem = problem_of_times(values) or problem_of_texts(values)
            if problem is not None:
                return f"column {shortened(name)}, rows from {start:,}: {problem}"
        start += rows.num_rows
    return None


def batches_of(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """The rows in batches, each row group separately.

    One reader of all groups keeps every text so far in the dictionaries of each batch.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(ROWS_AT_ONCE, row_groups=[group], use_threads=False)


def decoded_bytes(values: Any) -> int:
    """The bytes of texts, with those in dictionaries written out; 0 for other values."""
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes) if is_text(values.type) else 0
    sizes = pc.take(pc.binary_length(values.dictionary), values.indices)
    return int(pc.sum(pc.cast(sizes, pa.int64())).as_py() or 0)


def problem_of_times(values: Any) -> str | None:
    kind = values.type
    if pa.types.is_timestamp(kind):
        unit = UNITS[kind.unit]
        low, high = EARLIEST * unit, LATEST * unit
    elif pa.types.is_date32(kind):
        low, high = EARLIEST // 86_400, LATEST // 86_400
    else:
        return None
    numbers = values.view(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    least, most = (pc.min_max(numbers)[name].as_py() for name in ("min", "max"))
    if least is not None and (least < max(low, -(2**63)) or most > min(high, 2**63 - 1)):
        return "a time is not in the years 1 to 9999"
    return None


def problem_of_texts(values: Any) -> str | None:
    """A text with characters that databases cannot store."""
    texts = values.dictionary if pa.types.is_dictionary(values.type) else values
    if is_text(texts.type) and pc.any(pc.match_substring(texts, "\0")).as_py():
        return "a text contains the character NUL, which cannot be stored"
    return None


def shortened(text: str, longest: int = 80) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
