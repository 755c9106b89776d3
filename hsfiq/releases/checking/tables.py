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
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.releases.reader import NAME_A_RELEASE
from hsfiq.releases.schemas import Table

ROWS_AT_ONCE = 10_000


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

    `broken` has the reason for each Parquet file that is not.
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
    """Open a release folder, whatever state its tables are in.

    Raises:
        UnreadableInput: the folder has no manifest of ours, or the kind is not known.
    """
    if not path.is_dir():
        raise UnreadableInput(str(path), "there is no such folder", NAME_A_RELEASE)
    manifest = read_manifest(path)
    if manifest is None:
        raise UnreadableInput(str(path / MANIFEST), "is no release's manifest", NAME_A_RELEASE)
    kind = RELEASE_KINDS.get(manifest["kind"])
    if kind is None:
        known = ", ".join(RELEASE_KINDS)
        what = f"kind {manifest['kind']!r} is not known; there are {known}"
        raise UnreadableInput(str(path / MANIFEST), what, "use a newer hsfiq")
    tables, broken = {}, {}
    for name, table in kind.all_tables().items():
        file = path / f"{name}.parquet"
        if not file.is_file():
            continue
        try:
            with pq.ParquetFile(file) as opened:
                for _ in opened.iter_batches(ROWS_AT_ONCE):
                    pass
        except (pa.ArrowException, OSError) as error:
            broken[name] = " ".join(str(error).split())
        else:
            tables[name] = table
    return ReleaseFolder(path, manifest, kind, tables, broken)
