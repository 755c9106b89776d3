"""The tables of a release: each a Parquet file and a file of JSON lines, written part by part."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from hsfiq.arrow_columns import Array, ByPlace, Column, dictionary_encoded, json_lines
from hsfiq.collect.checks import MIRRORED
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import TableRows, Tables
from hsfiq.releases.schemas import NUMBER, TEXT, TEXTS, TIME
from hsfiq.releases.sieve import Exclusion

# The rows of `repeats`: answered repeated questions, with the sides of the first question.


def repeat_rows(kept: Questions, excluded: Iterable[Exclusion]) -> list[dict[str, Any]]:
    """The rows, of the questions of whole participants."""
    asked_again = [
        exclusion.question
        for exclusion in excluded
        if exclusion.question.repeats is not None and exclusion.question.preferred is not None
    ]
    if not asked_again:
        return []
    repeated = {question.repeats for question in asked_again}
    first_asked = {
        name: kept[place]
        for place, name in enumerate(kept.values("question_id"))
        if name in repeated
    }
    rows = []
    for again in asked_again:
        first = first_asked.get(again.repeats or "")
        if first is None or again.preferred is None:
            continue
        scores, preferred = (again.score_1, again.score_2), again.preferred
        if again.swapped != first.swapped:
            scores, preferred = scores[::-1], MIRRORED[preferred]
        rows.append(
            {
                "question_id": again.question_id,
                "repeated_id": again.repeats,
                "participant_id": again.participant_id,
                "query_id": again.query_id,
                "score_1": scores[0],
                "score_2": scores[1],
                "preferred": preferred,
                "active_seconds": again.active_seconds,
            }
        )
    return rows


ROWS_AT_ONCE = 50_000
"""At most so many rows are a row group of a Parquet file, and are text in memory at a time."""
UNIQUE = ("question_id", "set_id", "set_1", "set_2")
"""The columns of text whose values differ in nearly every row."""
REPEATING_TEXT = pa.dictionary(pa.int32(), TEXT)
WITH_DICTIONARY = {TEXT: REPEATING_TEXT, TEXTS: pa.list_(REPEATING_TEXT)}
PARTS_WAITING = 2
"""How many parts may wait to be written while the next ones are read."""


class TableFiles:
    """The files of one table in a folder."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.schema = with_dictionaries(schema)
        self.n_rows = 0
        self.lines_name = f"{name}.jsonl"
        self._digest = hashlib.sha256()
        self._closing = ExitStack()
        self._parquet = self._closing.enter_context(
            pq.ParquetWriter(
                folder / f"{name}.parquet",
                self.schema,
                compression="zstd",
                use_dictionary=repeating_columns(schema),  # type: ignore[arg-type] # as documented
                store_schema=False,  # readers see texts, not how they were in memory
            )
        )
        self._lines = self._closing.enter_context((folder / self.lines_name).open("wb"))

    def as_table(self, part: TableRows) -> pa.Table:
        return as_table(part, self.schema)

    def write_rows(self, table: pa.Table) -> None:
        self.n_rows += table.num_rows
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            self._parquet.write_table(table.slice(start, ROWS_AT_ONCE), row_group_size=ROWS_AT_ONCE)

    def write_lines(self, table: pa.Table, part: TableRows) -> None:
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            text = json_lines(table.slice(start, ROWS_AT_ONCE), json_of(part, start))
            self._lines.write(text)
            self._digest.update(text)

    def close(self) -> None:
        self._closing.close()

    @property
    def lines_sha256(self) -> str:
        return self._digest.hexdigest()


class TableWriter:
    """Writes the tables of a release into a folder, in two threads: Parquet, and JSON lines.

    A table has its files once something was added to it, even without rows. An error of a thread
    is raised by a later `add` or at the end.
    """

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self.folder = folder
        self.schemas = schemas
        self.files: dict[str, TableFiles] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._of_lines = ThreadPoolExecutor(max_workers=1)
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, _traceback: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=kind is not None)
        self._of_lines.shutdown(wait=True)
        try:
            while kind is None and self._waiting:
                self._waiting.popleft().result()
        finally:
            for files in self.files.values():
                files.close()

    def add(self, *parts: Tables | Callable[[], Tables]) -> None:
        """Add rows to tables; they must not be changed afterwards.

        What can be called makes them in the writer's thread.
        """
        while len(self._waiting) >= PARTS_WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._write, parts))

    def n_rows(self, table: str) -> int:
        """How many rows the table has; known at the end."""
        return self.files[table].n_rows if table in self.files else 0

    def _write(self, parts: Sequence[Tables | Callable[[], Tables]]) -> None:
        lines = []
        for part in parts:
            for name, rows in (part() if callable(part) else part).items():
                if name not in self.files:
                    self.files[name] = TableFiles(self.folder, name, self.schemas[name])
                files = self.files[name]
                table = files.as_table(rows)
                lines.append(self._of_lines.submit(files.write_lines, table, rows))
                files.write_rows(table)
        for written in lines:
            written.result()


def repeating_columns(schema: pa.Schema) -> list[str]:
    """The paths in Parquet of the columns whose values repeat, which have a dictionary.

    Ids, times and numbers differ in nearly every row: with a dictionary they would take more space
    and time.
    """
    return [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
        if is_repeating(field)
    ]


def is_repeating(field: pa.Field[Any]) -> bool:
    return field.name not in UNIQUE and field.type not in (TIME, NUMBER)


def with_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionaries for texts that repeat, which Parquet then has not to find."""
    return pa.schema(
        [
            field.with_type(WITH_DICTIONARY[field.type])
            if is_repeating(field) and field.type in WITH_DICTIONARY
            else field
            for field in schema
        ]
    )


def as_table(part: TableRows, schema: pa.Schema) -> pa.Table:
    if isinstance(part, Mapping):
        columns = [as_array(part[column.name], column.type) for column in schema]
        return pa.Table.from_arrays(columns, schema=schema)
    return pa.Table.from_pylist([dict(row) for row in part], schema=schema)


def as_array(column: Column, kind: pa.DataType) -> Array:
    has_dictionary = kind in WITH_DICTIONARY.values()
    if isinstance(column, ByPlace):
        return column.with_dictionary if has_dictionary else column.array
    if not isinstance(column, pa.Array):
        return pa.array(column, kind)
    return dictionary_encoded(column) if has_dictionary else column


def json_of(part: TableRows, start: int) -> dict[str, Array | str]:
    """The columns that are written as JSON by their values, from a row on."""
    if not isinstance(part, Mapping):
        return {}
    return {
        name: column.slice(start, ROWS_AT_ONCE).json
        for name, column in part.items()
        if isinstance(column, ByPlace)
    }
