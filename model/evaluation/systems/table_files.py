"""Tables of systems as CSV or LaTeX, in the layout of the analysis reports."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from pathlib import Path

from hsfiq.analysis.reports.document import Cell, Column, NumberCell, Table
from hsfiq.analysis.reports.formats.csv_tables import to_csv
from hsfiq.analysis.reports.formats.latex import to_latex
from hsfiq.atomic_files import require_new, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.metrics import Figure
from hsfiq.model.evaluation.systems.report import SystemsTable, heading

FORMATS = {".csv": to_csv, ".tex": to_latex}


def require_table_file(path: Path) -> None:
    """Refuse an existing file, and an unknown extension."""
    if path.suffix.lower() not in FORMATS:
        shown = path.suffix or "missing"
        raise UnreadableInput(str(path), f"its extension is {shown}", "use .csv or .tex")
    require_new(path)


def write_tables(path: Path, tables: Sequence[SystemsTable], *, simulated: bool) -> None:
    """Write all tables to one file, an empty line between them."""
    write = FORMATS[path.suffix.lower()]
    texts = [
        write(document_table(f"systems-{number}", table), simulated=simulated)
        for number, table in enumerate(tables, start=1)
    ]
    write_whole(path, "\n".join(texts).encode())


def document_table(name: str, table: SystemsTable) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (system, "", *(cell(own[column]) for column in table.columns))
        for system, own in table.rows.items()
    ]
    rows += [
        (
            row.system,
            row.source,
            *(NumberCell(row.figures.get(c, nan), style="points") for c in table.columns),
        )
        for row in table.published
    ]
    columns = [Column("system", "System"), Column("source", "Source")]
    columns += [Column(column, heading(column)) for column in table.columns]
    note = "In per cent; rows with a source are published figures."
    return Table(name, f"{table.caption}.", tuple(columns), tuple(rows), note)


def cell(figure: Figure) -> NumberCell:
    if figure.value is None:
        return NumberCell(nan, reason=figure.reason, style="points")
    return NumberCell(figure.value, style="points")
