"""The value of each query's list, of which a figure is the mean; and writing them to a file.

Pure Python, without numpy.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from pathlib import Path

from hsfiq.atomic_files import require_new, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import Benchmark, Query, SystemLists
from hsfiq.model.evaluation.metrics import SUMMARY, measures_of
from hsfiq.text import spreadsheet_text

FORMATS = (".csv", ".jsonl", ".parquet")
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class QueryRow:
    """The values of one query's list; None where the list does not determine it.

    Attributes:
        part: FashionIQ's category, or the benchmark.
        cluster: the reference image, or in CIRR the image set: queries with the same one depend on
            each other, since a system that fails on its images fails on all of them.
    """

    query_id: str
    part: str
    cluster: str
    values: dict[str, float | None]


def query_rows(benchmark: Benchmark, answers: Mapping[str, SystemLists]) -> list[QueryRow]:
    """The values of a system's lists, in the order of the benchmark's queries."""
    rows = []
    for part in benchmark.parts:
        measures = measures_of(benchmark, part, answers[part.name])
        for query in part.queries:
            values = {name: measure.value(query) for name, measure in measures.items()}
            if benchmark.name in SUMMARY:
                values[MEAN] = mean_of_two(*(values[name] for name in SUMMARY[benchmark.name]))
            rows.append(QueryRow(query.query_id, part.name, cluster_of(benchmark, query), values))
    return rows


def with_values(row: QueryRow, by_query: Mapping[str, Mapping[str, float]]) -> QueryRow:
    """The row with further values, by figure and query id; None where a query has none."""
    more = {name: values.get(row.query_id) for name, values in by_query.items()}
    return replace(row, values=row.values | more)


def mean_of_two(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2


def cluster_of(benchmark: Benchmark, query: Query) -> str:
    if benchmark.name == "cirr":
        return " ".join(sorted((query.reference, *query.subset)))
    return query.reference


def require_per_query_file(path: Path) -> None:
    """Refuse an existing file, and an unknown extension."""
    if path.suffix.lower() not in FORMATS:
        raise UnreadableInput(
            str(path), f"its extension is {path.suffix or 'missing'}", f"use {', '.join(FORMATS)}"
        )
    require_new(path)


def write_rows(path: Path, rows_of: Mapping[str, Sequence[QueryRow]]) -> None:
    """Write the values of every run: a row for each run and query, empty where undefined."""
    entries = [
        {"run": run, "query_id": row.query_id, "part": row.part, "cluster": row.cluster}
        | row.values
        for run, rows in rows_of.items()
        for row in rows
    ]
    write_whole(path, CONTENTS[path.suffix.lower()](entries))


Entries = list[dict[str, str | float | None]]


def to_csv(entries: Entries) -> bytes:
    text = StringIO(newline="")
    writer = csv.DictWriter(text, list(entries[0]))
    writer.writeheader()
    writer.writerows(
        {
            key: spreadsheet_text(value) if isinstance(value, str) else value
            for key, value in entry.items()
        }
        for entry in entries
    )
    return text.getvalue().encode()


def to_jsonl(entries: Entries) -> bytes:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()


def to_parquet(entries: Entries) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 (evaluating without this file does not need it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    texts = ("run", "query_id", "part", "cluster")
    schema = pa.schema(
        [(name, pa.string() if name in texts else pa.float64()) for name in entries[0]]
    )
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), sink)
    return sink.getvalue()


CONTENTS = {".csv": to_csv, ".jsonl": to_jsonl, ".parquet": to_parquet}
