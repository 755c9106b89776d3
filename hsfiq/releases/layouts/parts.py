"""The tables of a release with a split, once more in parts: `preferences-train.parquet`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hsfiq.releases.reader import PARTS, Part, read_parts

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
