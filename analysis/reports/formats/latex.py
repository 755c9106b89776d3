"""Tables as LaTeX, in the papers' layout (booktabs)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from hsfiq.analysis.reports.cells import DASH, MINUS, cell_text, value_and_interval
from hsfiq.analysis.reports.document import Cell, NumberCell, Row, Table
from hsfiq.analysis.reports.formats.fit import FittedTable, fit, text_width
from hsfiq.analysis.reports.venues import PAGE, Venue

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
    DASH: "---",
    MINUS: "$-$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
}
POINTS = 72.27  # of an inch
DIGIT = 4.25  # points: the width of a digit of 8 points
TEXT = 5.5  # inches: the width of the text, unless a venue's style says otherwise
LONGEST_WORD = 20  # digits: the widest word of running text that is not broken
SLACK = 4  # points, since widths are estimates
MOST_LINES = 42
SIMULATED_NOTE = "SIMULATED: these answers come from simulated annotators, not from people."


def to_latex(table: Table, *, simulated: bool, venue: Venue = PAGE) -> str:
    """Write a table as LaTeX that needs the package booktabs.

    It fits the venue's text: a table that is too wide or too long becomes several, each a float of
    its own. An undefined figure is a dash with a letter, explained in a note.
    """
    text = TEXT if venue is PAGE else venue.text
    parts = fit(table, (text * POINTS - SLACK) / DIGIT, MOST_LINES)
    return "\n".join(
        _float(part, number == 0, number == len(parts) - 1, simulated, venue)
        for number, part in enumerate(parts)
    )


def _float(part: FittedTable, is_first: bool, is_last: bool, simulated: bool, venue: Venue) -> str:
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


def _row(part: FittedTable, row: Row, letters: Mapping[str, str]) -> str:
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


def _cell(cell: Cell, letters: Mapping[str, str]) -> str:
    if not isinstance(cell, NumberCell):
        return escape(cell_text(cell))
    text, interval = (escape(part) for part in value_and_interval(cell))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text += f" {interval}" if interval else ""
    superscript = cell.superscript(letters)
    return rf"{text}\textsuperscript{{{superscript}}}" if superscript else text
