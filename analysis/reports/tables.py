"""Tables as LaTeX in the papers' layout (booktabs), as CSV and as plain text."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, isnan
from typing import NamedTuple

from hsfiq.analysis.reports import document
from hsfiq.text import spreadsheet_text

# Tables as CSV, in full precision, with how each interval was computed.

PROVENANCE = ("n_clusters", "unit", "method", "n_resamples", "seed")


def to_csv(table: document.Table, *, simulated: bool) -> str:
    """Write a table as CSV: a header and one line for each row.

    A figure has the column `key` and, if any row has them, `key_n`, `key_low`, `key_high` and how
    its interval was computed; an undefined figure is empty, and `reason` says why. Simulated
    answers are marked on every line.
    """
    rows = [[_fields(cell) for cell in row] for row in table.rows]
    names = [
        ["", *dict.fromkeys(name for row in rows for name in row[index] if name)]
        for index in range(len(table.columns))
    ]
    header = [
        f"{column.key}_{name}" if name else column.key
        for column, own in zip(table.columns, names, strict=True)
        for name in own
    ]
    has_reasons = bool(table.footnotes())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        header + (["reason"] if has_reasons else []) + (["simulated"] if simulated else [])
    )
    for cells, fields in zip(table.rows, rows, strict=True):
        line = [cell.get(name, "") for cell, own in zip(fields, names, strict=True) for name in own]
        numbers = (cell for cell in cells if isinstance(cell, document.NumberCell))
        reasons = dict.fromkeys(cell.why_undefined for cell in numbers if cell.why_undefined)
        line += ["; ".join(reasons)] if has_reasons else []
        writer.writerow(line + (["true"] if simulated else []))
    return out.getvalue()


def _fields(cell: document.Cell) -> dict[str, str]:
    """A cell's value under the empty name, then its n, its bounds and where they come from."""
    if not isinstance(cell, document.NumberCell):
        return {"": spreadsheet_text(str(cell))}
    fields = {"": _number(cell.value)}
    if cell.n is not None:
        fields["n"] = str(cell.n)
    if cell.bounds is not None:
        fields |= {"low": _number(cell.bounds[0]), "high": _number(cell.bounds[1])}
    if cell.ci is not None:
        fields |= {name: str(getattr(cell.ci, name)) for name in PROVENANCE}
    return fields


def _number(value: float) -> str:
    return "" if isnan(value) else repr(float(value))


# Tables that fit a page: wide ones are split by columns, long ones by rows.

GAP = 1.6  # between two columns
TEXT_WIDTHS = (34, 28, 22, 18)
"""The widths at which texts are broken into lines, the widest that fits first."""
NARROW, WIDE = "ijlft.,:;|[]()!'- ", "mwMW@%\N{EM DASH}\N{MINUS SIGN}+<>="


def text_width(text: str) -> float:
    """The approximate width of a text, in digits: letters of proportional fonts differ."""
    return sum(map(_character_width, text))


@lru_cache(1000)
def _character_width(character: str) -> float:
    if character in NARROW:
        return 0.6
    if character in WIDE:
        return 1.6
    return 1.45 if character.isupper() else 1.0


class ColumnWidths(NamedTuple):
    """The widths, in digits, of a column's heading, broken between words, and its widest cell."""

    heading: float
    cells: float
    is_text: bool

    @classmethod
    def of(cls, table: document.Table, column: int) -> ColumnWidths:
        return cls(
            heading=max(map(text_width, table.columns[column].title.split()), default=0.0),
            cells=max((_width(row[column]) for row in table.rows), default=0.0),
            is_text=table.is_text(column),
        )

    def width(self, line: int) -> float:
        """The width of the column when its texts are broken into lines of `line` digits."""
        return max(self.heading, min(self.cells, line) if self.is_text else self.cells)


@dataclass(frozen=True)
class FittedTable:
    """A part of a table with the widths of its columns; `line` is the width of its text lines."""

    table: document.Table
    line: int
    needs: tuple[ColumnWidths, ...]

    @classmethod
    def of(cls, table: document.Table, line: int) -> FittedTable:
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


def fit(table: document.Table, width: float, lines: int | None = None) -> list[FittedTable]:
    """Split a table into parts of at most this many digits and lines.

    The columns of text at its start name the rows, and every part has them.
    """
    narrow = FittedTable.of(table, TEXT_WIDTHS[-2])
    wholes = (replace(narrow, line=size) for size in TEXT_WIDTHS)
    whole = next((each for each in wholes if each.width <= width), None)
    parts = [whole] if whole is not None else list(_by_columns(narrow, width))
    return [shorter for part in parts for shorter in _by_lines(part, lines)]


def _width(cell: document.Cell) -> float:
    mark = (
        len(cell.stars) + bool(cell.why_undefined) if isinstance(cell, document.NumberCell) else 0
    )
    return text_width(document.cell_text(cell)) + mark


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
    """The number of columns that name the rows: those of text at its start, at least one."""
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


def _with_rows(part: FittedTable, rows: tuple[document.Row, ...]) -> FittedTable:
    return FittedTable.of(replace(part.table, rows=rows), part.line)


# Tables as LaTeX, in the papers' layout (booktabs).

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': "''",  # \textquotedbl needs T1 fonts
    "|": r"\textbar{}",
    "[": "{[}",  # a bracket after \\ would be read as an argument
    "]": "{]}",
    document.DASH: "---",
    document.MINUS: "$-$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
}
POINTS = 72.27  # of an inch
DIGIT = 4.25  # points: the width of a digit of 8 points
TEXT = 5.5  # inches: the width of the text, unless a venue's style says otherwise
LONGEST_WORD = 20  # digits: the widest word of running text that is not broken
SLACK = 4  # points, since widths are estimates
MOST_LINES = 42
SIMULATED_NOTE = "SIMULATED: these answers come from simulated annotators, not from people."


def to_latex(
    table: document.Table, *, simulated: bool, venue: document.Venue = document.PAGE
) -> str:
    """Write a table as LaTeX that needs the package booktabs.

    It fits the venue's text: a table that is too wide or too long is split into several, each in a
    separate float. An undefined figure is a dash with a letter, explained in a note.
    """
    text = TEXT if venue is document.PAGE else venue.text
    parts = fit(table, (text * POINTS - SLACK) / DIGIT, MOST_LINES)
    return "\n".join(
        _float(part, number == 0, number == len(parts) - 1, simulated, venue)
        for number, part in enumerate(parts)
    )


def _float(
    part: FittedTable, is_first: bool, is_last: bool, simulated: bool, venue: document.Venue
) -> str:
    table = part.table
    letters = table.footnotes()
    columns = range(len(table.columns))
    alignment = "".join("l" if table.is_text(column) else "r" for column in columns)
    notes = ([SIMULATED_NOTE] if simulated else []) + (table.notes() if is_last else [])
    environment = "table*" if venue.has_columns else "table"
    caption = breakable(table.caption) + ("" if is_first else " (continued)")
    headings = " & ".join(_heading(part, column, alignment[column]) for column in columns)
    label = [rf"  \label{{tab:{table.name.replace('_', '-')}}}"] if is_first else []
    lines = [
        rf"\begin{{{environment}}}[t]",
        r"  \centering\footnotesize",
        r"  \setlength{\tabcolsep}{3pt}",
        rf"  \caption{{{caption}}}",
        *label,
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        rf"    {headings} \\",
        r"    \midrule",
        *(rf"    {_row(part, row, letters)} \\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip {breakable(note)}" for note in notes),
        *(
            rf"  \par \textsuperscript{{{letter}}} {breakable(reason)}"
            for reason, letter in letters.items()
        ),
        rf"\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def _heading(part: FittedTable, column: int, alignment: str) -> str:
    """A heading, with a line for each word or few words, so that its column stays narrow."""
    width = max(1, int(part.width_of(column)))
    lines = textwrap.wrap(part.table.columns[column].title, width, break_long_words=False)
    if len(lines) < 2:
        return escape(" ".join(lines))
    stacked = r" \\ ".join(map(escape, lines))
    return rf"\shortstack[{alignment}]{{{stacked}}}"


def _row(part: FittedTable, row: document.Row, letters: Mapping[str, str]) -> str:
    return " & ".join(
        _broken(cell, part.line)
        if isinstance(cell, str) and part.is_broken(column)
        else _cell(cell, letters)
        for column, cell in enumerate(row)
    )


def _broken(text: str, width: int) -> str:
    """A text of several lines."""
    size = f"{width * DIGIT:.0f}pt"
    return rf"\parbox[t]{{{size}}}{{\raggedright {breakable(text, width)}\strut}}"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


def breakable(text: str, width: float = LONGEST_WORD) -> str:
    """Escape a text whose words may be broken where they are wider than `width` digits.

    LaTeX breaks no word at an underscore. It prefers these breaks after punctuation marks.
    """
    return " ".join(
        escape(word) if text_width(word) <= width else "".join(_breakable_characters(word))
        for word in text.split()
    )


def _breakable_characters(word: str) -> Iterator[str]:
    for character in word:
        yield escape(character)
        yield r"\penalty500{}" if character.isalnum() else r"\allowbreak{}"


def _cell(cell: document.Cell, letters: Mapping[str, str]) -> str:
    if not isinstance(cell, document.NumberCell):
        return escape(document.cell_text(cell))
    text, interval = (escape(part) for part in document.value_and_interval(cell))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text += f" {interval}" if interval else ""
    superscript = cell.superscript(letters)
    return rf"{text}\textsuperscript{{{superscript}}}" if superscript else text
