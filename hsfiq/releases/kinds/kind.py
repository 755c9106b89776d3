"""What every kind of release has, and the rows that several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hsfiq.ids import set_id
from hsfiq.releases.kinds.columns import ANSWERED, ASKED
from hsfiq.releases.kinds.shared_tables import SHARED_TABLES
from hsfiq.releases.reading.questions import Questions
from hsfiq.releases.rows import QuestionRow, TableRows
from hsfiq.releases.schemas import Table
from hsfiq.releases.writing.further import FurtherFiles, no_files

Rows = list[dict[str, Any]]


def nothing_struck(_kept: Sequence[QuestionRow]) -> Rows:
    return []


@dataclass(frozen=True, slots=True)
class ReleaseKind:
    """A kind of release.

    Attributes:
        about: what its answers are, for the dataset card.
        sets_are: what its sets are, as in "8 scored sets"; empty if it has none.
        main: the table with a row for each question, or for each part of one.
        own_tables: `main` comes first; all kinds share the others.
        tables: the rows of its own tables, of some of the questions kept; a table that has none may
            be left out.
        files: its further files.
        other: what another release of the same study has, for the dataset card.
        default_config: the table that `datasets` loads by default; "" for `main`.
        struck: the rows of `exclusions` about texts that releases leave out.
    """

    name: str
    question_kind: str
    about: str
    main: str
    own_tables: tuple[Table, ...]
    tables: Callable[[Questions], Mapping[str, TableRows]]
    files: FurtherFiles = no_files
    struck: Callable[[Sequence[QuestionRow]], Rows] = nothing_struck
    sets_are: str = "scored sets"
    other: str = ""
    default_config: str = ""

    @property
    def default_table(self) -> str:
        return self.default_config or self.main

    def all_tables(self) -> dict[str, Table]:
        """By name, in the order of the dataset card and of the Croissant metadata."""
        return {table.name: table for table in (*self.own_tables, *SHARED_TABLES)}

    def parted_tables(self, present: Collection[str]) -> list[str]:
        """Its own tables that a split divides, as far as the release has them."""
        return [table.name for table in self.own_tables if table.name in present]

    def schemas(self) -> dict[str, pa.Schema]:
        return {name: table.arrow() for name, table in self.all_tables().items()}


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
    asked = {column.name: getattr(question, column.name) for column in ASKED}
    answered = {column.name: getattr(question, column.name) for column in ANSWERED}
    return {**asked, **own, **answered}
