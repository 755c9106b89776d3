"""What is wrong with a release: the file, the row and the column, and what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hsfiq.releases.untrusted import shortened
from hsfiq.text import one_line

FIRST = 5
"""So many findings are kept of each file and column; the others are counted."""
MOST = 500
"""So many are kept in all."""
LONGEST = 500
"""Characters of what is wrong, which may quote a value."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong; `row` is a line of the JSON lines and a row of Parquet, from 1."""

    file: str
    what: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row:,}" if self.row is not None else ""
        column = f", {self.column}" if self.column is not None else ""
        return one_line(f"{self.file}{row}{column}: {self.what}")


@dataclass(slots=True)
class Findings:
    """The first findings of each file and column, how many there are, and notes.

    A note says what could not be verified, or what differs between versions of hsfiq.
    """

    first: list[Finding] = field(default_factory=list)
    n: int = 0
    notes: list[str] = field(default_factory=list)
    _counts: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def add(
        self, file: str, what: str, *, row: int | None = None, column: str | None = None
    ) -> None:
        self.n += 1
        if len(self.first) < MOST and self._counts[file, column] < FIRST:
            self._counts[file, column] += 1
            column = None if column is None else shortened(column)
            self.first.append(Finding(file, shortened(what, LONGEST), row, column))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
