"""Entries of the audit log as CSV and as JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from io import StringIO

from hsfiq.audit.log import facts
from hsfiq.db.change_tables import AuditEntry
from hsfiq.text import spreadsheet_text

COLUMNS = ("at", "actor", "action", "study", "about", "outcome")


def csv_file(entries: Iterable[AuditEntry]) -> bytes:
    """Spreadsheets take no cell for a formula; see `spreadsheet_text`."""
    content = StringIO()
    writer = csv.writer(content, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in entries:
        row = facts(entry)
        writer.writerow([spreadsheet_text(row[column] or "") for column in COLUMNS])
    return content.getvalue().encode()


def json_lines(entries: Iterable[AuditEntry]) -> bytes:
    lines = (json.dumps(facts(entry), ensure_ascii=False) for entry in entries)
    return "".join(f"{line}\n" for line in lines).encode()


FORMATS: Mapping[str, Callable[[Iterable[AuditEntry]], bytes]] = {
    "csv": csv_file,
    "jsonl": json_lines,
}
"""By the ending of a file's name."""
