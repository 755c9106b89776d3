"""The files of a release, written part by part.

Each table is a Parquet file and a file of JSON lines; some kinds of releases have further files.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy.orm import Session

from hsfiq import arrow_columns
from hsfiq.db.tables import Study
from hsfiq.kinds.images import image_rows
from hsfiq.kinds.pair import mirrored
from hsfiq.kinds.rows import Part, QuestionRow, Questions, TableRows, Tables
from hsfiq.kinds.search_rows import SearchRow, TurnRow
from hsfiq.releases.dropping_rules import Exclusion
from hsfiq.sessions.record import Corpus, Round, Stop, line_of
from hsfiq.sessions.record import Session as SessionRecord

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
        names = ("score_1", "score_2", "preferred")
        given = {name: getattr(again, name) for name in names}
        given = mirrored(given) if again.swapped != first.swapped else given
        rows.append(
            {
                "question_id": again.question_id,
                "repeated_id": again.repeats,
                "participant_id": again.participant_id,
                "query_id": again.query_id,
                **given,
                "active_seconds": again.active_seconds,
            }
        )
    return rows


ROWS_AT_ONCE = 50_000
"""The most rows of a row group of a Parquet file, and the most rows held in memory as text."""
UNIQUE = ("question_id", "set_id", "set_1", "set_2")
"""The columns of text whose values differ in nearly every row."""
REPEATING_TEXT = pa.dictionary(pa.int32(), arrow_columns.TEXT)
WITH_DICTIONARY = {
    arrow_columns.TEXT: REPEATING_TEXT,
    arrow_columns.TEXTS: pa.list_(REPEATING_TEXT),
}
PARTS_WAITING = 2
"""The most parts that wait to be written while the next ones are read."""


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
            text = arrow_columns.json_lines(table.slice(start, ROWS_AT_ONCE), json_of(part, start))
            self._lines.write(text)
            self._digest.update(text)

    def close(self) -> None:
        self._closing.close()

    @property
    def lines_sha256(self) -> str:
        return self._digest.hexdigest()


class TableWriter:
    """Writes the tables of a release into a folder, in two threads: Parquet, and JSON lines.

    The files of a table are created by the first addition, even of no rows. An error of a thread is
    raised by a later `add` or at the end.
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

        A callable makes the rows in the writer's thread.
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
    return field.name not in UNIQUE and field.type not in (arrow_columns.TIME, arrow_columns.NUMBER)


def with_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The schema with dictionaries for repeated texts, which saves Parquet the search for them."""
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


def as_array(column: arrow_columns.Column, kind: pa.DataType) -> arrow_columns.Array:
    has_dictionary = kind in WITH_DICTIONARY.values()
    if isinstance(column, arrow_columns.ByPlace):
        return column.with_dictionary if has_dictionary else column.array
    if not isinstance(column, pa.Array):
        return pa.array(column, kind)
    return arrow_columns.dictionary_encoded(column) if has_dictionary else column


def json_of(part: TableRows, start: int) -> dict[str, arrow_columns.Array | str]:
    """The columns that are written as JSON by their values, from a row on."""
    if not isinstance(part, Mapping):
        return {}
    return {
        name: column.slice(start, ROWS_AT_ONCE).json
        for name, column in part.items()
        if isinstance(column, arrow_columns.ByPlace)
    }


# Files of a release that are no tables, written as the questions come.


@dataclass(frozen=True, slots=True)
class Kept:
    """Some of the questions that a release keeps, in its order, all of each participant.

    `parts` has the part of each question in the split that was drawn; None without a split.
    """

    questions: Questions
    parts: Sequence[Part] | None = None


class FurtherFile(Protocol):
    """A further file of a release that is being written."""

    def add(self, kept: Kept) -> None:
        """Write the file's records of these questions, or keep them until the end."""

    def close(self) -> list[str]:
        """Close the file, or remove it; return notes on omissions, such as this file."""


FurtherFileMaker = Callable[[Session, Study, Path], FurtherFile]
"""Starts a further file of a study's release."""


@contextmanager
def closed_on_error(files: Sequence[FurtherFile]) -> Iterator[Sequence[FurtherFile]]:
    """The files; if the block raises, they are closed and their notes are ignored."""
    try:
        yield files
    except BaseException:
        for file in files:
            with suppress(Exception):
                file.close()
        raise


class Qrels:
    """TREC's lines `query 0 image level`, with the median level (the lower one of two).

    The counts of each level for each image are in memory until the end.
    """

    def __init__(self, _session: Session, _study: Study, path: Path) -> None:
        self.path = path
        self.levels: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)

    def add(self, kept: Kept) -> None:
        for question in kept.questions:
            for row in image_rows(question):
                self.levels[row["query_id"], row["image_id"]][row["relevance"]] += 1

    def close(self) -> list[str]:
        for names in self.levels:
            broken = [name for name in names if name.split() != [name]]
            if broken:
                return [
                    f"no qrels.txt: the id {broken[0]!r} contains a space, which separates columns"
                ]
        with self.path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(
                f"{query} 0 {image} {median_low(sorted(given.elements()))}\n"
                for (query, image), given in self.levels.items()
            )
        return []


class RecordsFile:
    """Searches in the session format of `hsfiq sessions measure`.

    Sessions are written in the order of the questions; searches without turns are left out.
    """

    def __init__(self, _session: Session, study: Study, path: Path) -> None:
        self.study, self.name = study, path.name
        self.file = path.open("w", encoding="utf-8", newline="")
        self.n_left_out = 0

    def add(self, kept: Kept) -> None:
        for question in kept.questions:
            if question.search is None or not question.search.turns:
                self.n_left_out += 1
            else:
                self.file.write(line_of(session_record(self.study, question, question.search)))

    def close(self) -> list[str]:
        self.file.close()
        if not self.n_left_out:
            return []
        return [f"{self.name} omits {self.n_left_out:,} searches without turns"]


def session_record(study: Study, question: QuestionRow, search: SearchRow) -> SessionRecord:
    query, searches, (retriever,) = question.query, search.searches, search.retrievers
    stop = search.stop(query.target_id, question.judged("why"))
    has_target = searches.task != "own-wish" and query.target_id is not None
    versions = [turn.of_list(1, "system_version") for turn in search.turns if turn.lists]
    last = next((turn.satisfaction for turn in reversed(search.turns) if turn.satisfaction), None)
    return SessionRecord(
        session_id=question.question_id,
        query_id=question.query_id,
        rounds=tuple(
            round_of(turn, search.turns[place] if place < len(search.turns) else None)
            for place, turn in enumerate(search.turns, start=1)
        ),
        system=retriever.system.name,
        system_version=versions[-1] if versions else retriever.version,
        history=searches.history,
        chooser=searches.chooser,
        corpus=Corpus(
            name=retriever.corpus_name,
            size=retriever.corpus_size,
            sha256=retriever.corpus_sha256,
        ),
        category=query.category or None,
        seed=search.seed,
        targets=(query.target_id,) if has_target and query.target_id else (),
        max_rounds=searches.rounds,
        stop=stop and Stop(reason=stop, round=len(search.turns), declared=search.declared_id),
        participant=question.participant_id,
        study=study.name,
        task=searches.task,
        is_simulated=study.origin == "simulated",
        place=search.place,
        satisfaction=last,
        ease=question.judged("ease"),
        would_go_on=question.judged("would_go_on"),
        active_seconds=question.active_seconds,
    )


def round_of(turn: TurnRow, following: TurnRow | None) -> Round:
    return Round(
        round=turn.turn,
        reference=turn.reference_id,
        text=turn.text,
        shown=tuple(turn.of_list(1, "image_ids") or ()),
        scores=tuple(turn.of_list(1, "scores") or ()),
        rank=turn.of_list(1, "rank"),
        ties=turn.of_list(1, "ties"),
        candidate=following.reference_id if following else None,
        seconds=turn.of_list(1, "retriever_seconds"),
        satisfaction=turn.satisfaction,
        nearest=turn.nearest_id,
        active_seconds=turn.active_seconds,
    )
