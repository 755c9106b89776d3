"""The tables of a release folder, read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.errors import UnreadableInput
from hsfiq.releases.kinds import RELEASE_KINDS, ReleaseKind
from hsfiq.releases.manifest import MANIFEST, require_manifest
from hsfiq.releases.reader import EXPORT_AGAIN
from hsfiq.releases.schemas import CONTENT, TYPE_NAMES, Table
from hsfiq.releases.untrusted import (
    ROWS_AT_ONCE,
    files_in,
    is_list,
    is_text,
    read_bounded_json,
    require_regular_files,
    shortened,
    table_problem,
    unopened,
)

FEW_ROWS = 1000
"""To divide the columns of so few rows among threads takes longer than to read them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a table; the first has the number `start`, from 1."""

    start: int
    rows: pa.RecordBatch

    def column(self, name: str) -> list[Any] | None:
        """The values of a column; None if the file lacks it."""
        place = self.rows.schema.get_field_index(name)
        return None if place < 0 else self.rows.column(place).to_pylist()

    def numbered(self, *names: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row's number and its values of these columns, or of all; missing ones are None."""
        chosen = names or tuple(self.rows.schema.names)
        n_rows = self.rows.num_rows
        columns = [self.column(name) or [None] * n_rows for name in chosen]
        for place, values in enumerate(zip(*columns, strict=True)):
            yield self.start + place, dict(zip(chosen, values, strict=True))


@dataclass(frozen=True, slots=True)
class ReleaseFolder:
    """A release on disk: its manifest, its kind, and the tables whose Parquet files are readable.

    `broken` says why each other Parquet file cannot be read, including files of parts and layouts.
    """

    path: Path
    manifest: Mapping[str, Any]
    kind: ReleaseKind
    tables: Mapping[str, Table]
    broken: Mapping[str, str]

    def has(self, table: str, *columns: str) -> bool:
        return table in self.tables and set(columns) <= set(self.schema(table).names)

    def schema(self, table: str) -> pa.Schema:
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            return file.schema_arrow

    def n_rows(self, table: str) -> int:
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            return int(file.metadata.num_rows)

    def batches(self, table: str, *columns: str) -> Iterator[Batch]:
        """The table's rows, of these columns or of all; what the file lacks is left out."""
        start = 1
        with pq.ParquetFile(self.path / f"{table}.parquet") as file:
            chosen = [name for name in columns if name in file.schema_arrow.names]
            for rows in file.iter_batches(
                ROWS_AT_ONCE,
                columns=chosen if columns else None,
                use_threads=file.metadata.num_rows > FEW_ROWS,
            ):
                yield Batch(start, rows)
                start += rows.num_rows


def open_release(path: Path) -> ReleaseFolder:
    """Open a release folder, whatever state its tables are in; anybody may have made it.

    Raises:
        UnreadableInput: the folder has no manifest of ours, the kind is not known, or it has what
            a release never has, such as links or names of files outside the folder.
    """
    manifest = require_manifest(path)
    require_regular_files(path)
    kind = RELEASE_KINDS.get(manifest["kind"])
    if kind is None:
        known = ", ".join(RELEASE_KINDS)
        what = f"kind {manifest['kind']!r} is not known; there are {known}"
        raise UnreadableInput(str(path / MANIFEST), what, "use a newer hsfiq")
    files = [file for file in files_in(path) if file.suffix == ".parquet"]
    unopened_files = unopened(files)
    tables = {}
    broken = {
        file.relative_to(path).with_suffix("").as_posix(): problem
        for file, problem in unopened_files.items()
    }
    for name, table in kind.all_tables().items():
        file = path / f"{name}.parquet"
        if not file.is_file() or file in unopened_files:
            continue
        problem = table_problem(file)
        if problem is None:
            tables[name] = table
        else:
            broken[name] = problem
    return ReleaseFolder(path, manifest, kind, tables, broken)


def require_readable(path: Path) -> None:
    """Refuse a folder whose tables are not to be read; what is missing is for the reader to say.

    Its manifest may be another tool's, and so may be types that hold the same values as ours.

    Raises:
        UnreadableInput: it has other files than regular ones, or a table that cannot be read, takes
            more memory than its bytes account for, or has a column of another type.
    """
    if not (path / MANIFEST).exists():
        return
    require_regular_files(path)
    manifest = read_bounded_json(path / MANIFEST)
    kind = RELEASE_KINDS.get(str(manifest.get("kind"))) if isinstance(manifest, dict) else None
    described = kind.all_tables() if kind else {}
    known = described or {table for kind in RELEASE_KINDS.values() for table in kind.schemas()}
    files = {name: path / f"{name}.parquet" for name in sorted(known)}
    files = {name: file for name, file in files.items() if file.is_file()}
    unopened_files = unopened(list(files.values()))
    for name, file in files.items():
        problem = unopened_files.get(file) or table_problem(file)
        if problem is None and name in described:
            with pq.ParquetFile(file) as opened:
                problem = unlike(opened.schema_arrow, described[name])
        if problem is not None:
            raise UnreadableInput(str(file), problem, EXPORT_AGAIN)


def unlike(schema: pa.Schema, table: Table) -> str | None:
    """A column whose type cannot hold the values of ours; None if there is none."""
    for field in schema:
        known = field.name in table.names
        if known and not is_like(field.type, table[field.name].type):
            return f"column {field.name} is {field.type}, and not {table[field.name].type_name}"
        if not known and not is_ours(field.type):
            return f"column {shortened(field.name)} is {field.type}, which no column of ours is"
    return None


def is_ours(kind: pa.DataType) -> bool:
    return any(is_like(kind, own) for own in TYPE_NAMES if own != CONTENT)


def is_content(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whole numbers, too: pandas writes them as floats where a column has nulls."""
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


CLASSES = (is_text, is_content, is_number, pa.types.is_boolean, pa.types.is_timestamp)


def is_like(kind: Any, ours: Any) -> bool:
    """Whether a type holds values as ours does, such as int64 for int8."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return True
    if is_list(ours):
        return is_list(kind) and is_like(kind.value_type, ours.value_type)
    return any(is_of(ours) and is_of(kind) for is_of in CLASSES)
