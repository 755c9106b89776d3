"""Tables that fit a page: wide ones are split by columns, long ones by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from hsfiq.analysis.reports.cells import cell_text
from hsfiq.analysis.reports.document import Cell, NumberCell, Row, Table

GAP = 1.6  # between two columns
TEXT_WIDTHS = (34, 28, 22, 18)
"""The widths at which texts are broken into lines, the widest that fits first."""
NARROW, WIDE = "ijlft.,:;|[]()!'- ", "mwMW@%\N{EM DASH}\N{MINUS SIGN}+<>="


def text_width(text: str) -> float:
    """About how wide a text is, in digits: letters of proportional fonts differ."""
    return sum(map(_character_width, text))


@lru_cache(1000)
def _character_width(character: str) -> float:
    if character in NARROW:
        return 0.6
    if character in WIDE:
        return 1.6
    return 1.45 if character.isupper() else 1.0


class ColumnWidths(NamedTuple):
    """What a column needs, in digits: its heading, broken between words, and its widest cell."""

    heading: float
    cells: float
    is_text: bool

    @classmethod
    def of(cls, table: Table, column: int) -> ColumnWidths:
        return cls(
            heading=max(map(text_width, table.columns[column].title.split()), default=0.0),
            cells=max((_width(row[column]) for row in table.rows), default=0.0),
            is_text=table.is_text(column),
        )

    def width(self, line: int) -> float:
        """The width of the column when its texts are broken into lines of so many digits."""
        return max(self.heading, min(self.cells, line) if self.is_text else self.cells)


@dataclass(frozen=True)
class FittedTable:
    """A part of a table, and what its columns need; its texts are broken into lines of `line`."""

    table: Table
    line: int
    needs: tuple[ColumnWidths, ...]

    @classmethod
    def of(cls, table: Table, line: int) -> FittedTable:
        places = range(len(table.columns))
        return cls(table, line, tuple(ColumnWidths.of(table, place) for place in places))

    def width_of(self, column: int) -> float:
        return self.needs[column].width(self.line)

    def is_broken(self, column: int) -> bool:
        """Whether a column has texts of several lines."""
        return self.needs[column].is_text and self.needs[column].cells > self.line

    @property
    def width(self) -> float:
        return self.width_of_all(range(len(self.needs)))

    def width_of_all(self, columns: Sequence[int]) -> float:
        return sum(self.width_of(column) + GAP for column in columns) - GAP

    def only(self, columns: Sequence[int]) -> FittedTable:
        """The table with some of its columns."""
        table = replace(
            self.table,
            columns=tuple(self.table.columns[column] for column in columns),
            rows=tuple(tuple(row[column] for column in columns) for row in self.table.rows),
        )
        return replace(self, table=table, needs=tuple(self.needs[column] for column in columns))


def fit(table: Table, width: float, lines: int | None = None) -> list[FittedTable]:
    """Split a table into parts of at most so many digits and lines.

    The columns of text at its start name the rows, and every part has them.
    """
    narrow = FittedTable.of(table, TEXT_WIDTHS[-2])
    wholes = (replace(narrow, line=size) for size in TEXT_WIDTHS)
    whole = next((each for each in wholes if each.width <= width), None)
    parts = [whole] if whole is not None else list(_by_columns(narrow, width))
    return [shorter for part in parts for shorter in _by_lines(part, lines)]


def _width(cell: Cell) -> float:
    mark = len(cell.stars) + bool(cell.why_undefined) if isinstance(cell, NumberCell) else 0
    return text_width(cell_text(cell)) + mark


def _by_columns(whole: FittedTable, width: float) -> Iterator[FittedTable]:
    names = list(range(_n_names(whole)))
    group: list[int] = []
    for column in range(len(names), len(whole.needs)):
        if group and whole.width_of_all([*names, *group, column]) > width:
            yield whole.only([*names, *group])
            group = []
        group.append(column)
    yield whole.only([*names, *group])


def _n_names(whole: FittedTable) -> int:
    """How many columns name the rows: those of text at its start, at least one."""
    n = 0
    while n < len(whole.needs) and whole.table.rows and whole.needs[n].is_text:
        n += 1
    return max(1, min(n, len(whole.needs) - 1))


def _by_lines(part: FittedTable, most: int | None) -> Iterator[FittedTable]:
    if most is None:
        yield part
        return
    rows = part.table.rows
    start = used = 0
    for number, row in enumerate(rows):
        texts = (text_width(cell) for cell in row if isinstance(cell, str))
        lines = max((ceil(length / part.line) for length in texts), default=1)
        if number > start and used + lines > most:
            yield _with_rows(part, rows[start:number])
            start, used = number, 0
        used += lines
    yield _with_rows(part, rows[start:])


def _with_rows(part: FittedTable, rows: tuple[Row, ...]) -> FittedTable:
    return FittedTable.of(replace(part.table, rows=rows), part.line)
