"""`csv`: each table as CSV, as RFC 4180 defines it, in UTF-8.

Nulls and empty texts are empty cells, lists are JSON, and times are ISO 8601. A text that a
spreadsheet would take for a formula, or that begins with an apostrophe, is prefixed with an
apostrophe; removing the first apostrophe of each such text restores the texts.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hsfiq.kinds.rows import Part
from hsfiq.releases.folder import PARTS, read_parts
from hsfiq.text import spreadsheet_text


def write_csv(folder: Path, tables: Iterable[str]) -> None:
    """Write `<table>.csv` of each table of a release folder."""
    for table in tables:
        with (
            pq.ParquetFile(folder / f"{table}.parquet") as file,
            (folder / f"{table}.csv").open("w", encoding="utf-8", newline="") as stream,
        ):
            writer = csv.writer(stream)
            writer.writerow(file.schema_arrow.names)
            for batch in file.iter_batches():
                columns = [column.to_pylist() for column in batch.columns]
                writer.writerows(
                    [cell(value) for value in row] for row in zip(*columns, strict=True)
                )


def cell(value: Any) -> Any:
    """A value as a cell.

    >>> cell("=1+1"), cell(["a", None]), cell(True), cell(-3)
    ("'=1+1", '["a", null]', 'true', -3)
    """
    match value:
        case str():
            return spreadsheet_text(value)
        case bool():
            return "true" if value else "false"
        case list():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return value.isoformat()
    return value


# The tables of a release with a split, once more in parts: `preferences-train.parquet`.

ROWS_AT_ONCE = 50_000


def write_parts(folder: Path, tables: Iterable[str]) -> dict[str, dict[Part, str]]:
    """Write the rows of each part of each table; the names of the files by table and part.

    A part without questions has no file, since `datasets` cannot load one.
    """
    parts = read_parts(folder)
    questions = {part: ids_of(parts, part) for part in PARTS}
    present = [part for part in PARTS if len(questions[part])]
    names = {table: {part: f"{table}-{part}.parquet" for part in present} for table in tables}
    for table, files in names.items():
        with ExitStack() as stack, pq.ParquetFile(folder / f"{table}.parquet") as source:
            writers = {
                part: stack.enter_context(
                    pq.ParquetWriter(folder / files[part], source.schema_arrow, compression="zstd")
                )
                for part in present
            }
            for batch in source.iter_batches(ROWS_AT_ONCE):
                for part, writer in writers.items():
                    chosen = pc.is_in(batch.column("question_id"), questions[part])
                    writer.write_batch(batch.filter(chosen))
    return names


def ids_of(parts: Mapping[str, Part], part: Part) -> pa.Array[pa.StringScalar]:
    return pa.array([question for question, of in parts.items() if of == part], pa.string())
