"""Tables as CSV, in full precision, with how each interval was computed."""

from __future__ import annotations

import csv
import io
import re
from math import isnan

from hsfiq.analysis.reports.document import Cell, NumberCell, Table

FORMULA = re.compile(r"""(^|[;\t\r\n])(["\s]*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20'])|^(?=[\t\r\n])""")
PROVENANCE = ("n_clusters", "unit", "method", "n_resamples", "seed")


def to_csv(table: Table, *, simulated: bool) -> str:
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
        numbers = (cell for cell in cells if isinstance(cell, NumberCell))
        reasons = dict.fromkeys(cell.why_undefined for cell in numbers if cell.why_undefined)
        line += ["; ".join(reasons)] if has_reasons else []
        writer.writerow(line + (["true"] if simulated else []))
    return out.getvalue()


def _fields(cell: Cell) -> dict[str, str]:
    """A cell's value under the empty name, then its n, its bounds and where they come from."""
    if not isinstance(cell, NumberCell):
        return {"": spreadsheet_text(str(cell))}
    fields = {"": _number(cell.value)}
    if cell.n is not None:
        fields["n"] = str(cell.n)
    if cell.bounds is not None:
        fields |= {"low": _number(cell.bounds[0]), "high": _number(cell.bounds[1])}
    if cell.ci is not None:
        fields |= {name: str(getattr(cell.ci, name)) for name in PROVENANCE}
    return fields


def spreadsheet_text(text: str) -> str:
    """A text that spreadsheets show and do not run; `hsfiq.text.spreadsheet_text` is equal."""
    return FORMULA.sub(r"\1\2'", text)


def _number(value: float) -> str:
    return "" if isnan(value) else repr(float(value))
