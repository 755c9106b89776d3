"""Tables as CSV, in full precision, with how each figure was found."""

from __future__ import annotations

import csv
import io
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.document import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.analysis.reports.document import Cell, Table

ENDS = ("low", "high")
FOUND = ("n_clusters", "unit", "method", "n_resamples", "seed")


def to_csv(table: Table, *, simulated: bool) -> str:
    """Write a table as CSV.

    Args:
        table: any table of the report.
        simulated: whether it shows simulated answers; each line then says so.

    Returns:
        A header and one line for each row. A figure has the columns `key`, and where any row of
        the table has them, `key_n`, `key_low`, `key_high` and how its interval was found; an
        undefined figure is empty, and `reason` says why.
    """
    fields = [_fields([row[place] for row in table.rows]) for place in range(len(table.columns))]
    header = [
        f"{column.key}_{field}" if field else column.key
        for column, own in zip(table.columns, fields, strict=True)
        for field in own
    ]
    has_reasons = bool(table.footnotes())
    header += ["reason"] if has_reasons else []
    header += ["simulated"] if simulated else []
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        written = [
            _value(cell, field) for cell, own in zip(row, fields, strict=True) for field in own
        ]
        if has_reasons:
            numbers = (cell for cell in row if isinstance(cell, Measured))
            reasons = dict.fromkeys(cell.why_undefined for cell in numbers if cell.why_undefined)
            written.append("; ".join(reasons))
        writer.writerow(written + (["true"] if simulated else []))
    return out.getvalue()


def _fields(cells: list[Cell]) -> list[str]:
    return ["", *dict.fromkeys(field for cell in cells for field in _own(cell))]


def _own(cell: Cell) -> Iterator[str]:
    if isinstance(cell, Measured):
        if cell.n is not None:
            yield "n"
        if cell.ends is not None:
            yield from ENDS
        if cell.ci is not None:
            yield from FOUND


def _value(cell: Cell, field: str) -> str:
    if not isinstance(cell, Measured):
        return "" if field else str(cell)
    if field == "n":
        return "" if cell.n is None else str(cell.n)
    if field in FOUND:
        return "" if cell.ci is None else str(getattr(cell.ci, field))
    value = cell.value
    if field in ENDS:
        value = float("nan") if cell.ends is None else cell.ends[ENDS.index(field)]
    return "" if isnan(value) else repr(float(value))
