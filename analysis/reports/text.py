"""A report as plain text for the terminal: its sentences and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import isnan
from textwrap import wrap

from hsfiq.analysis.reports import document

WIDTH = 100
INDENT = GAP = "  "
DIGITS = 4
MOST_ROWS = 24
"""Longer tables, such as those with a row for each participant, appear only in `--report`."""
MOST_COUNTS = 2
SIMULATED = "SIMULATED: these figures describe a simulation, not people."
INTERVALS = "Intervals: 95%, by resampling; --json has the method of each."


def to_text(report: document.Document, *closing: str) -> str:
    """Lines of at most `WIDTH` characters (unless a word is longer), without a final newline.

    Charts are left out, since tables have their figures, and so are the methods.
    """
    simulated = [SIMULATED] if report.simulated else []
    caveats = [f"{heading}: {text}" for heading, text in report.caveats]
    head = "\n".join(map(folded, (report.title, report.summary, *simulated, *caveats)))
    blocks = (head, sections_text(report.sections), "\n".join(map(folded, closing)))
    return "\n\n".join(block for block in blocks if block)


def sections_text(sections: Iterable[document.Section]) -> str:
    blocks = (list(section_lines(section)) for section in sections)
    return "\n\n".join("\n".join(map(folded, block)) for block in blocks if block)


def folded(text: str) -> str:
    """Break a line into lines of at most `WIDTH` characters, unless a word is longer."""
    if len(text) <= WIDTH:
        return text
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = wrap(
        text,
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(lines)


def section_lines(section: document.Section) -> Iterator[str]:
    """The title, then sentences and tables; empty for methods and for sections with only charts."""
    if section.title.startswith("Methods"):
        return
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, str):
            lines.append(INDENT + block)
        elif isinstance(block, document.Table):
            lines += table_lines(block, has_caption=block.caption != section.title)
    if lines:
        yield from (section.title, *lines)


def table_lines(table: document.Table, *, has_caption: bool = True) -> Iterator[str]:
    """The caption, the rows below their headings, then notes and why figures are undefined."""
    if not table.rows:
        return
    if has_caption:
        yield INDENT + table.caption
    if len(table.rows) > MOST_ROWS:
        yield f"{INDENT * 2}{len(table.rows):,} rows: see --json or --report"
        return
    letters = table.footnotes()
    counts = list(counts_of(table))
    columns = [*columns_of(table, letters), *(each for each in counts if each.varies)]
    names = list(takewhile(lambda column: column.is_text, columns))[: len(columns) - 1]
    for group in groups(columns[len(names) :], WIDTH - len(INDENT * 2) - width_of(names)):
        yield from (f"{INDENT * 2}{line}".rstrip() for line in lines_of([*names, *group]))
    notes = [f"{each.title}: {each.cells[0]}" for each in counts if not each.varies]
    yield from (f"{INDENT * 2}{note}" for note in [*notes, *table.notes()])
    yield from (f"{INDENT * 2}({letter}) {reason}" for reason, letter in letters.items())


# The columns of a table, each as wide as its cells and its heading of at most so many lines.

HEADING_LINES = 3


@dataclass(frozen=True)
class TextColumn:
    title: str
    cells: tuple[str, ...]
    is_text: bool

    @property
    def varies(self) -> bool:
        return len(set(self.cells)) > 1

    @cached_property
    def width(self) -> int:
        least = max(map(len, (*self.title.split(), *self.cells, "-")))
        widths = range(least, len(self.title) + least)
        return next(n for n in widths if len(wrap(self.title, n)) <= HEADING_LINES)

    @property
    def heading(self) -> list[str]:
        return wrap(self.title, self.width)

    def padded(self, text: str) -> str:
        return text.ljust(self.width) if self.is_text else text.rjust(self.width)


def columns_of(table: document.Table, letters: Mapping[str, str]) -> Iterator[TextColumn]:
    for place, column in enumerate(table.columns):
        cells = tuple(marked_text(row[place], letters) for row in table.rows)
        yield TextColumn(column.title, cells, table.is_text(place))


def counts_of(table: document.Table) -> Iterator[TextColumn]:
    """The n and the clusters of each row's figures, unless the table counts them itself."""
    if any(isinstance(cell, int) for row in table.rows for cell in row):
        return
    rows = [[cell for cell in row if isinstance(cell, document.NumberCell)] for row in table.rows]
    n = [[cell.n for cell in row if cell.n is not None] for row in rows]
    clusters = [[cell.ci.n_clusters for cell in row if cell.ci is not None] for row in rows]
    for title, counts in (("n", n), ("clusters", clusters)):
        if any(counts):
            yield TextColumn(title, tuple(map(counts_text, counts)), is_text=False)


def counts_text(counts: Sequence[int]) -> str:
    """Different counts; of more than `MOST_COUNTS`, the least and the greatest."""
    different = list(dict.fromkeys(counts))
    if len(different) > MOST_COUNTS:
        return f"{min(different):,} to {max(different):,}"
    return ", ".join(f"{n:,}" for n in different)


def width_of(columns: Sequence[TextColumn]) -> int:
    return sum(column.width + len(GAP) for column in columns)


def groups(columns: Sequence[TextColumn], width: int) -> Iterator[list[TextColumn]]:
    """The columns in groups of at most this many characters."""
    group: list[TextColumn] = []
    for column in columns:
        if group and width_of([*group, column]) - len(GAP) > width:
            yield group
            group = []
        group.append(column)
    yield group


def lines_of(columns: Sequence[TextColumn]) -> Iterator[str]:
    """The headings, aligned at their last line, and the rows."""
    n_lines = max(len(column.heading) for column in columns)
    texts = (
        [*[""] * (n_lines - len(column.heading)), *column.heading, *column.cells]
        for column in columns
    )
    for line in zip(*texts, strict=True):
        padded = (column.padded(text) for column, text in zip(columns, line, strict=True))
        yield GAP.join(padded)


def marked_text(cell: document.Cell, letters: Mapping[str, str]) -> str:
    """A cell with its interval, its marks and, if it is undefined, the letter of its reason."""
    if not isinstance(cell, document.NumberCell):
        return f"{cell:,}" if isinstance(cell, int) else cell
    why = f" ({letters[cell.why_undefined]})" if cell.why_undefined else ""
    if isnan(cell.value):
        return f"undefined{why}"
    interval = f" {document.bounds_text(cell.bounds, cell.style, DIGITS)}" if cell.bounds else ""
    text = f"{document.number_text(cell.value, cell.style, DIGITS)}{interval}{cell.stars}{why}"
    return text.replace(document.MINUS, "-").replace(document.DASH, "undefined")
