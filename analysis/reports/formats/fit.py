"""Tables that fit a page: wide ones are split by columns, long ones by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from hsfiq.analysis.reports.cells import cell_text
from hsfiq.analysis.reports.document import Cell, NumberCell, Table

GAP = 1.6  # between two columns
TEXT_WIDTHS = (34, 28, 22, 18)
"""The widths at which texts are broken into lines, the widest that fits first."""
NARROW, WIDE = "ijlft.,:;|[]()!'- ", "mwMW@%\N{EM DASH}\N{MINUS SIGN}+<>="


def text_width(text: str) -> float:
    """About how wide a text is, in digits: letters of proportional fonts differ."""
    return sum(
        0.6 if each in NARROW else 1.6 if each in WIDE else 1.45 if each.isupper() else 1.0
        for each in text
    )


@dataclass(frozen=True)
class FittedTable:
    """A part of a table; its texts are broken into lines of `line` digits."""

    table: Table
    line: int

    def width_of(self, column: int) -> float:
        """The width of a column in digits; its heading is broken between words."""
        heading = max(map(text_width, self.table.columns[column].title.split()), default=0.0)
        cells = max((_width(row[column]) for row in self.table.rows), default=0.0)
        if self.table.is_text(column):
            cells = min(cells, self.line)
        return max(heading, cells)

    def is_broken(self, column: int) -> bool:
        """Whether a column has texts of several lines."""
        return self.table.is_text(column) and any(
            _width(row[column]) > self.line for row in self.table.rows
        )

    @property
    def width(self) -> float:
        columns = range(len(self.table.columns))
        return sum(self.width_of(column) + GAP for column in columns) - GAP


def fit(table: Table, width: float, lines: int | None = None) -> list[FittedTable]:
    """Split a table into parts of at most so many digits and lines.

    The columns of text at its start name the rows, and every part has them.
    """
    whole = next(
        (each for size in TEXT_WIDTHS if (each := FittedTable(table, size)).width <= width), None
    )
    parts = [whole] if whole is not None else list(_by_columns(table, width))
    return [shorter for part in parts for shorter in _by_lines(part, lines)]


def _width(cell: Cell) -> float:
    mark = len(cell.stars) + bool(cell.why_undefined) if isinstance(cell, NumberCell) else 0
    return text_width(cell_text(cell)) + mark


def _by_columns(table: Table, width: float) -> Iterator[FittedTable]:
    names = list(range(_n_names(table)))
    group: list[int] = []
    for column in range(len(names), len(table.columns)):
        if group and _only(table, [*names, *group, column]).width > width:
            yield _only(table, [*names, *group])
            group = []
        group.append(column)
    yield _only(table, [*names, *group])


def _n_names(table: Table) -> int:
    """How many columns name the rows: those of text at its start, at least one."""
    n = 0
    while n < len(table.columns) and table.rows and table.is_text(n):
        n += 1
    return max(1, min(n, len(table.columns) - 1))


def _by_lines(part: FittedTable, most: int | None) -> Iterator[FittedTable]:
    rows = part.table.rows
    start = used = 0
    for number, row in enumerate(rows):
        texts = (text_width(cell) for cell in row if isinstance(cell, str))
        lines = max((ceil(length / part.line) for length in texts), default=1)
        if most is not None and number > start and used + lines > most:
            yield replace(part, table=replace(part.table, rows=rows[start:number]))
            start, used = number, 0
        used += lines
    yield replace(part, table=replace(part.table, rows=rows[start:]))


def _only(table: Table, columns: Sequence[int]) -> FittedTable:
    taken = replace(
        table,
        columns=tuple(table.columns[column] for column in columns),
        rows=tuple(tuple(row[column] for column in columns) for row in table.rows),
    )
    return FittedTable(taken, TEXT_WIDTHS[-2])
