"""Tables as LaTeX, in the papers' layout (booktabs)."""

from __future__ import annotations

from collections.abc import Mapping

from hsfiq.analysis.reports.cells import DASH, MINUS, cell_text, value_and_interval
from hsfiq.analysis.reports.document import Cell, NumberCell, Table

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
    "[": "{[}",  # a bracket after \\ would be read as an argument
    "]": "{]}",
    DASH: "---",
    MINUS: "$-$",
    "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
}
SIMULATED_NOTE = "SIMULATED: these answers come from simulated annotators, not from people."


def to_latex(table: Table, *, simulated: bool) -> str:
    """Write a table as LaTeX that needs the package booktabs (and T1 fonts for quotation marks).

    An undefined figure is a dash with a letter, explained in a note.
    """
    letters = table.footnotes()
    alignment = "".join(
        "l" if table.is_text(column) else "r" for column in range(len(table.columns))
    )
    notes = ([SIMULATED_NOTE] if simulated else []) + table.notes()
    lines = [
        r"\begin{table}[t]",
        r"  \centering",
        rf"  \caption{{{escape(table.caption)}}}",
        rf"  \label{{tab:{table.name.replace('_', '-')}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        f"    {' & '.join(escape(column.title) for column in table.columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(_cell(cell, letters) for cell in row)} \\\\" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(rf"  \par\smallskip\footnotesize {escape(note)}" for note in notes),
        *(
            rf"  \par\footnotesize \textsuperscript{{{letter}}} {escape(reason)}"
            for reason, letter in letters.items()
        ),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in " ".join(text.split()))


def _cell(cell: Cell, letters: Mapping[str, str]) -> str:
    if not isinstance(cell, NumberCell):
        return escape(cell_text(cell))
    text, interval = (escape(part) for part in value_and_interval(cell))
    text = rf"\textbf{{{text}}}" if cell.best else text
    text += f" {interval}" if interval else ""
    superscript = cell.superscript(letters)
    return rf"{text}\textsuperscript{{{superscript}}}" if superscript else text
