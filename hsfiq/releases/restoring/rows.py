"""The rows of a release's tables that belong to one question, read beside the main table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from hsfiq.releases.checking.tables import ReleaseFolder

Row = dict[str, Any]

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Of what releases give no time for, where the database needs one."""


def rows_of(release: ReleaseFolder, table: str) -> Iterator[Row]:
    """All rows of a table; none if the release lacks it."""
    if table in release.tables:
        for batch in release.batches(table):
            for _, row in batch.numbered():
                yield row


class RowsOfQuestions:
    """The rows of a table whose questions come in the order of the main table."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.groups = groupby(rows, key=lambda row: row["question_id"])
        self.waiting: tuple[str, list[Row]] | None = None
        self.advance()

    def advance(self) -> None:
        group = next(self.groups, None)
        self.waiting = None if group is None else (group[0], list(group[1]))

    def of(self, question: str) -> list[Row]:
        """The question's rows; questions are asked for in their order."""
        if self.waiting is None or self.waiting[0] != question:
            return []
        rows = self.waiting[1]
        self.advance()
        return rows
