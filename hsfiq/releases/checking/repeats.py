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
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.errors import HsfiqError
from hsfiq.releases.checking.findings import Findings
from hsfiq.releases.checking.tables import ROWS_AT_ONCE, ReleaseFolder
from hsfiq.releases.layouts.csv_files import write_csv
from hsfiq.releases.layouts.parts import write_parts
from hsfiq.releases.layouts.trl import write_trl
from hsfiq.releases.writing.json_lines import json_lines

Row = dict[str, Any]


def check_lines(release: ReleaseFolder, table: str, findings: Findings) -> None:
    path, name = release.path / f"{table}.jsonl", f"{table}.jsonl"
    if not path.is_file():
        return
    with path.open("rb") as file:
        for batch in release.batches(table):
            lines = list(islice(file, batch.rows.num_rows))
            expected = json_lines(pa.Table.from_batches([batch.rows])).to_pybytes()
            if b"".join(lines) == expected:
                continue  # which is faster than comparing row by row
            for (number, row), line in zip(batch.numbered(), lines, strict=False):
                if line != as_line(row):
                    check_line(name, number, row, line, findings)
            if len(lines) < batch.rows.num_rows:
                n_rows, n_lines = release.n_rows(table), batch.start - 1 + len(lines)
                what = f"is missing: {table}.parquet has {n_rows:,} rows"
                findings.add(name, what, row=n_lines + 1)
                return
        if next(file, b""):
            n_rows = release.n_rows(table)
            findings.add(name, f"is not in {table}.parquet: {n_rows:,} rows", row=n_rows + 1)


def check_line(
    name: str, number: int, row: dict[str, Any], line: bytes, findings: Findings
) -> None:
    try:
        value = json.loads(line)
    except ValueError as error:
        findings.add(name, f"is not JSON ({error})", row=number)
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
            add_first_difference(file, rows_of(ours / file), rows_of(again / file), findings)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
            findings.add(file, f"cannot be read ({' '.join(str(error).split())})")


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
        for batch in opened.iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()
