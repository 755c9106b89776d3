"""Files that repeat a release's tables: JSON lines, the tables in parts, and layouts.

JSON lines are compared with the Parquet files, row by row where they differ; the tables in parts,
`csv` and `trl` with the same files made again. Packed images, and what is made of them, are
compared by their digests only.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.arrow_columns import json_lines
from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.readers.files import parse_json
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.tables import ReleaseFolder
from hsfiq.releases.layouts.csv_files import write_csv
from hsfiq.releases.layouts.parts import write_parts
from hsfiq.releases.layouts.trl import write_trl
from hsfiq.releases.manifest import MANIFEST
from hsfiq.releases.reader import PARTS
from hsfiq.releases.untrusted import columns_of

Row = dict[str, Any]

FEW_ROWS = 100
SPARE = 2**16
LONGEST_LINE = 2**24
"""Bytes of a line that differs from the row of the Parquet file."""


def check_lines(release: ReleaseFolder, table: str, findings: Findings) -> None:
    path, name = release.path / f"{table}.jsonl", f"{table}.jsonl"
    if not path.is_file():
        return
    n_rows = release.n_rows(table)
    with path.open("rb") as file:
        for batch in release.batches(table):
            start = file.tell()
            expected = json_lines(pa.Table.from_batches([batch.rows])).to_pybytes()
            if file.read(len(expected)) == expected:
                continue  # which is faster than comparing row by row
            file.seek(start)
            for number, row in batch.numbered():
                line, own = file.readline(LONGEST_LINE), as_line(row)
                if not line:
                    what = f"is missing: {table}.parquet has {n_rows:,} rows"
                    findings.add(name, what, row=number)
                    return
                if len(line) == LONGEST_LINE > len(own):
                    findings.add(name, f"has more than {LONGEST_LINE:,} bytes", row=number)
                    return
                if line != own:
                    check_line(name, number, row, line, findings)
        if file.read(1):
            findings.add(name, f"is not in {table}.parquet: {n_rows:,} rows", row=n_rows + 1)


def check_line(
    name: str, number: int, row: dict[str, Any], line: bytes, findings: Findings
) -> None:
    try:
        value = parse_json(line.decode(), name, number)
    except (UnreadableInput, UnicodeDecodeError) as error:
        reason = error.what if isinstance(error, UnreadableInput) else "not UTF-8"
        findings.add(name, f"is not JSON ({reason})", row=number)
        return
    if not isinstance(value, dict):
        findings.add(name, "is not a JSON object", row=number)
        return
    for column, expected, given in differences(row, value):
        what = f"is {given}, and in {name.removesuffix('.jsonl')}.parquet {expected}"
        findings.add(name, what, row=number, column=column)


def differences(row: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The columns that differ, each with the text of the Parquet file's value and of the line's."""
    for column in row.keys() | value.keys():
        expected = as_json(row[column]) if column in row else "absent"
        given = as_json(value[column]) if column in value else "absent"
        if expected != given:
            yield column, expected, given


def as_line(row: dict[str, Any]) -> bytes:
    return f"{as_json(row)}\n".encode()


def as_json(value: object) -> str:
    """A value as `hsfiq.releases` writes it: times in ISO 8601."""
    return json.dumps(value, ensure_ascii=False, default=as_text)


def as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


# ------------------------------------------------------------------------------ made again


def check_repeated_tables(release: ReleaseFolder, findings: Findings) -> None:
    """Tables in parts and as CSV have the names that we write, of tables that the release has."""
    layouts, parts = release.manifest.get("layouts", {}), release.manifest.get("parts", {})
    for file in layouts.get("csv", ()):
        if not (file.endswith(".csv") and file.removesuffix(".csv") in release.tables):
            findings.add(MANIFEST, f"{file} is the CSV of no table", column="layouts.csv")
    for table, files in parts.items():
        for part, file in files.items():
            if table not in release.tables or file != f"{table}-{part}.parquet":
                findings.add(MANIFEST, f"{file} is the part of no table", column=f"parts.{table}")
            elif part not in PARTS:
                findings.add(MANIFEST, f"{part} is no part of a split", column=f"parts.{table}")


def check_rebuilt(release: ReleaseFolder, findings: Findings) -> None:
    """Compare row by row; call it only for a release without other findings.

    Files that were made of wrong tables would only repeat what is wrong with them.
    """
    layouts, parts = release.manifest.get("layouts", {}), release.manifest.get("parts", {})
    has_images = bool(release.manifest.get("images"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in release.tables:
            file = f"{table}.parquet"
            (folder / file).symlink_to((release.path / file).resolve())
        makers: list[tuple[Iterable[str], Callable[[], object]]] = []
        if "csv" in layouts:
            tables = [Path(file).stem for file in layouts["csv"]]
            makers.append((layouts["csv"], lambda: write_csv(folder, tables)))
        if "trl" in layouts and not has_images:
            makers.append((layouts["trl"], lambda: write_trl(folder, None)))
        if parts:
            files = [file for of_table in parts.values() for file in of_table.values()]
            makers.append((files, lambda: write_parts(folder, parts)))
        for repeated, make in makers:
            compare(release.path, folder, repeated, make, findings)
    if has_images:
        findings.note("images.parquet, trl and webdataset are compared by their digests only")


def compare(
    ours: Path, again: Path, files: Iterable[str], make: Callable[[], object], findings: Findings
) -> None:
    """Make files again and add what differs: the first row of each file."""
    try:
        make()
    except (HsfiqError, pa.ArrowException, OSError) as error:
        findings.add("manifest.json", f"its layouts cannot be made again ({error})")
        return
    for file in files:
        if not (ours / file).is_file():
            continue  # `check_files` has found this
        if not (again / file).is_file():
            findings.add(file, "has rows, and the tables give none")
            continue
        try:
            if file.endswith(".parquet") and (problem := unlike(ours / file, again / file)):
                findings.add(file, problem)
                continue
            add_first_difference(file, rows_of(ours / file), rows_of(again / file), findings)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
            findings.add(file, f"cannot be read ({' '.join(str(error).split())})")


def unlike(ours: Path, again: Path) -> str | None:
    """Why a Parquet file is not to be read: columns or sizes are not those of the file made again.

    What is in it is compared row by row, so it may be somewhat larger.
    """
    with pq.ParquetFile(ours) as file, pq.ParquetFile(again) as expected:
        if not file.schema_arrow.equals(expected.schema_arrow):
            return "has other columns than the tables give"
        sizes, known = sizes_of(file.metadata), sizes_of(expected.metadata)
    if any(size > 2 * own + SPARE for size, own in zip(sizes, known, strict=True)):
        return "has more rows or bytes than the tables give"
    return None


def sizes_of(metadata: pq.FileMetaData) -> tuple[int, int, int]:
    """The numbers of rows and of values, and the bytes without compression."""
    columns = columns_of(metadata)
    n_bytes = sum(column.total_uncompressed_size for column in columns)
    return metadata.num_rows, sum(column.num_values for column in columns), n_bytes


def add_first_difference(
    file: str, ours: Iterator[Row], again: Iterator[Row], findings: Findings
) -> None:
    for number, (row, expected) in enumerate(zip_longest(ours, again), start=1):
        if row == expected:
            continue
        if row is None or expected is None:
            what = "is missing" if row is None else "is in none of the tables"
            findings.add(file, what, row=number)
            return
        keys = [key for key in {**expected, **row} if row.get(key) != expected.get(key)]
        findings.add(
            file,
            f"is {row.get(keys[0])!r}, and {expected.get(keys[0])!r} by the tables",
            row=number,
            column=keys[0],
        )
        return


def rows_of(path: Path) -> Iterator[Row]:
    """The rows of a CSV or a Parquet file, some at a time."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
        return
    with pq.ParquetFile(path) as opened:
        for batch in opened.iter_batches(FEW_ROWS):
            yield from batch.to_pylist()
