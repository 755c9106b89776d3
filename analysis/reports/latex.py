"""Tables as LaTeX, in the papers' layout (booktabs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsfiq.analysis.reports.cells import DASH, MINUS, halves, shown
from hsfiq.analysis.reports.document import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hsfiq.analysis.reports.document import Cell, Table

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
    '"': r"\textquotedbl{}",
    "|": r"\textbar{}",
    "[": "{[}",  # a bracket after \\ would be taken for an argument
    "]": "{]}",
    DASH: "---",
    MINUS: "$-$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
}
SIMULATED_NOTE = "SIMULATED: these answers come from simulated annotators, not from people."


def to_latex(table: Table, *, simulated: bool) -> str:
    """Write a table as LaTeX that needs the package booktabs (and T1 fonts for quotation marks).

    Args:
        table: any table of the report.
        simulated: whether it shows simulated answers, which it then says itself.

    Returns:
        A table environment; undefined figures are dashes with letters, explained below.
    """
    letters = table.footnotes()
    columns = range(len(table.columns))
    alignment = "".join("l" if table.is_text(place) else "r" for place in columns)
    notes = ([SIMULATED_NOTE] if simulated else []) + table.notes()
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \caption{{{escaped(table.caption)}}}",
        rf"  \label{{tab:{table.name.replace('_', '-')}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        f"    {' & '.join(escaped(column.title) for column in table.columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(_cell(cell, letters) for cell in row)} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {escaped(note)}" for note in notes),
        *(
            rf"  \par\footnotesize \textsuperscript{{{letter}}} {escaped(reason)}"
            for reason, letter in letters.items()
        ),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Write text so that LaTeX sets it as it stands."""
    return "".join(SPECIAL.get(sign, sign) for sign in " ".join(text.split()))


def _cell(cell: Cell, letters: Mapping[str, str]) -> str:
    if not isinstance(cell, Measured):
        return escaped(shown(cell))
    text, ends = (escaped(half) for half in halves(cell))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text += f" {ends}" if ends else ""
    marks = cell.marks(letters)
    return rf"{text}\textsuperscript{{{marks}}}" if marks else text
