"""Tables as LaTeX, in the papers' layout (booktabs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsfiq.analysis.reports.cells import DASH, MINUS, halves, shown
from hsfiq.analysis.reports.document import Measured, why_undefined

if TYPE_CHECKING:
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
MARK_NOTE = "* p at most .05, ** .01, *** .001."


def to_latex(table: Table, *, simulated: bool) -> str:
    """Write a table as LaTeX that needs the package booktabs (and T1 fonts for quotation marks).

    Args:
        table: any table of the report.
        simulated: whether it shows simulated answers, which it then says itself.

    Returns:
        A table environment; undefined figures are dashes with letters, explained below.
    """
    reasons = table.reasons()
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \caption{{{escaped(table.caption)}}}",
        rf"  \label{{tab:{table.name.replace('_', '-')}}}",
        rf"  \begin{{tabular}}{{{_alignment(table)}}}",
        r"    \toprule",
        f"    {' & '.join(escaped(column.title) for column in table.columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(_cell(cell, reasons) for cell in row)} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {escaped(note)}" for note in _notes(table, simulated)),
        *(
            rf"  \par\footnotesize \textsuperscript{{{letter(place)}}} {escaped(reason)}"
            for place, reason in enumerate(reasons)
        ),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Write text so that LaTeX sets it as it stands."""
    return "".join(SPECIAL.get(sign, sign) for sign in " ".join(text.split()))


def letter(place: int) -> str:
    """The mark of a table's footnote: a, b, ..., z, aa, ab, ..."""
    return (letter(place // 26 - 1) if place >= 26 else "") + chr(ord("a") + place % 26)


def has_marks(table: Table) -> bool:
    """Whether any figure of a table bears significance marks."""
    return any(isinstance(cell, Measured) and cell.stars for row in table.rows for cell in row)


def _notes(table: Table, simulated: bool) -> list[str]:
    notes = [SIMULATED_NOTE] if simulated else []
    notes += [table.note] if table.note else []
    return notes + ([MARK_NOTE] if has_marks(table) else [])


def _alignment(table: Table) -> str:
    columns = zip(*table.rows, strict=True) if table.rows else [("",)] * len(table.columns)
    return "".join(
        "l" if all(isinstance(cell, str) for cell in column) else "r" for column in columns
    )


def _cell(cell: Cell, reasons: tuple[str, ...]) -> str:
    if not isinstance(cell, Measured):
        return escaped(shown(cell))
    text, ends = (escaped(half) for half in halves(cell))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text += f" {ends}" if ends else ""
    why = why_undefined(cell)
    marks = cell.stars + (letter(reasons.index(why)) if why else "")
    return rf"{text}\textsuperscript{{{marks}}}" if marks else text
