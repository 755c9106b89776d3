"""What every kind of release has, and the columns that the answers of several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlalchemy.orm import Session

from hsfiq.db.tables import Study
from hsfiq.ids import set_id
from hsfiq.releases.rows import QuestionRow
from hsfiq.releases.schemas import (
    COLUMN_DESCRIPTIONS,
    COLUMNS,
    DESCRIPTIONS,
    SHARED,
    TEXT,
    TEXT_VERSION,
    TIME,
)

Columns = Mapping[str, pa.DataType]
Rows = list[dict[str, Any]]
Files = tuple[dict[str, bytes], list[str]]
"""Further files by name, and notes on what the release lacks."""

ASKED: Columns = {
    "question_id": TEXT,
    "participant_id": TEXT,
    "form": TEXT,
    "place": pa.int32(),
    "query_id": TEXT,
    "item_id": TEXT,
    "text": TEXT,
}
ANSWERED: Columns = {
    "irrelevant": pa.bool_(),
    "reason": TEXT,
    "revision": pa.int32(),
    "served_at": TIME,
    "first_interaction_at": TIME,
    "submitted_at": TIME,
    "active_seconds": pa.float64(),
    "failed_checks": pa.int32(),
    "images_painted": pa.bool_(),
    "images_enlarged": pa.int32(),
    "reference_state": TEXT,
    "text_version": pa.int32(),
    "language": TEXT,
}
ITEM = "what was judged: the same for everybody who judged it"


def nothing_struck(_kept: Sequence[QuestionRow]) -> Rows:
    return []


def no_files(_session: Session, _study: Study, _kept: Sequence[QuestionRow]) -> Files:
    return {}, []


@dataclass(frozen=True, slots=True)
class ReleaseKind:
    """A kind of release.

    Attributes:
        about: what its answers are, for the dataset card.
        sets_are: what its sets are, as in "8 scored sets"; empty if it has none.
        main: the table with a row for each question, or for each part of one.
        columns: those of its own tables, by table; `main` comes first.
        descriptions: of its own tables.
        tables: the rows of its own tables, of the questions kept.
        files: its further files.
        struck: the rows of `exclusions` about texts that releases leave out.
    """

    name: str
    question_kind: str
    about: str
    main: str
    columns: Mapping[str, Columns]
    descriptions: Mapping[str, str]
    tables: Callable[[Sequence[QuestionRow]], dict[str, Rows]]
    column_descriptions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: Callable[[Session, Study, Sequence[QuestionRow]], Files] = no_files
    struck: Callable[[Sequence[QuestionRow]], Rows] = nothing_struck
    sets_are: str = "scored sets"

    def schemas(self) -> dict[str, pa.Schema]:
        """In the order of the dataset card and of the Croissant metadata."""
        columns = {**self.columns, **{table: COLUMNS[table] for table in SHARED}}
        return {table: pa.schema(of_table) for table, of_table in columns.items()}

    def description(self, table: str) -> str:
        return self.descriptions.get(table) or DESCRIPTIONS[table]

    def described_columns(self, table: str) -> Mapping[str, str]:
        """Descriptions of the columns whose names do not say all."""
        described = self.column_descriptions.get(table, COLUMN_DESCRIPTIONS.get(table, {}))
        return {**described, "text_version": TEXT_VERSION} if table == self.main else described


def set_rows(question: QuestionRow, scores: Sequence[int | None]) -> Iterator[dict[str, Any]]:
    """The rows of `sets`, one for each set as shown, with its score."""
    for side, score in enumerate(scores, start=1):
        yield {
            "set_id": set_id(question.question_id, side),
            "question_id": question.question_id,
            "side": side,
            "participant_id": question.participant_id,
            "query_id": question.query_id,
            "system": question.sets[side - 1].system,
            "image_ids": question.sets[side - 1].image_ids,
            "shown_order": question.orders[side - 1],
            "image_states": question.image_states(side),
            "score": score,
        }


def answer_row(question: QuestionRow, **own: object) -> dict[str, Any]:
    """A row with the shared columns, and its own between them."""
    asked = {name: getattr(question, name) for name in ASKED}
    answered = {name: getattr(question, name) for name in ANSWERED}
    return {**asked, **own, **answered}
