"""The differences between two releases of one kind, by table.

Rows are compared by the key of their table. Those of the first release are kept in a temporary
SQLite file, so that memory does not grow with the number of answers.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hsfiq.errors import UnreadableInput
from hsfiq.kinds.tables import Table
from hsfiq.releases.folder import ReleaseFolder, open_release, unlike
from hsfiq.releases.verify import as_json

FIRST = 5
"""The most rows of each sort that are listed; all are counted."""
FACTS = ("version", "study", "title", "origin", "filters", "funnel", "counts", "split", "scale",
         "languages", "wording", "analysis", "content_sha256")  # fmt: skip
"""The compared entries of the manifests."""

Values = tuple[Any, Any]
"""In the first release, and in the second."""


@dataclass(slots=True)
class TableDiff:
    """The differences of a table. `keys` are the columns that identify a row.

    `changed_columns` counts, for each column, the rows in which it changed. `only_in` is the folder
    of the only release that has the table.
    """

    keys: tuple[str, ...]
    n_before: int = 0
    n_after: int = 0
    n_added: int = 0
    n_gone: int = 0
    n_changed: int = 0
    added: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    changed: dict[str, dict[str, Values]] = field(default_factory=dict)
    changed_columns: dict[str, int] = field(default_factory=dict)
    only_in: str | None = None

    @property
    def differs(self) -> bool:
        return bool(self.n_added or self.n_gone or self.n_changed or self.only_in)


@dataclass(frozen=True, slots=True)
class ReleaseDiff:
    """`facts` are the entries of the manifests that differ."""

    facts: Mapping[str, Values]
    tables: Mapping[str, TableDiff]

    @property
    def differs(self) -> bool:
        return any(table.differs for table in self.tables.values())


def diff(before: Path, after: Path) -> ReleaseDiff:
    """Compare two releases.

    Raises:
        UnreadableInput: a folder is not a release, the releases have different kinds, or a table
        cannot be read.
    """
    first, second = open_release(before), open_release(after)
    if first.kind is not second.kind:
        what = f"is of kind {second.kind.name}, and {before} of kind {first.kind.name}"
        raise UnreadableInput(str(after), what, "compare releases of the same kind")
    for release in (first, second):
        problems = {**release.broken}
        for name, table in release.tables.items():
            if problem := unlike(release.schema(name), table):
                problems[name] = problem
        for name, reason in problems.items():
            raise UnreadableInput(str(release.path / f"{name}.parquet"), reason)
    facts = {
        name: (first.manifest.get(name), second.manifest.get(name))
        for name in FACTS
        if first.manifest.get(name) != second.manifest.get(name)
    }
    tables = {}
    for name, table in first.kind.all_tables().items():
        if name in first.tables and name in second.tables:
            tables[name] = diff_table(first, second, table)
        elif name in first.tables or name in second.tables:
            only = first if name in first.tables else second
            tables[name] = TableDiff(table.key, only_in=str(only.path))
    return ReleaseDiff(facts, tables)


def diff_table(before: ReleaseFolder, after: ReleaseFolder, table: Table) -> TableDiff:
    result = TableDiff(table.key)
    with kept_rows() as kept:
        for key, row in keyed_rows(before, table):
            kept.execute("insert or replace into rows values (?, ?)", (key, as_json(row)))
            result.n_before += 1
        for key, row in keyed_rows(after, table):
            result.n_after += 1
            known = kept.execute("select value from rows where key = ?", (key,)).fetchone()
            if known is None:
                result.n_added += 1
                note(result.added, key)
            elif known[0] != (text := as_json(row)):
                note_change(result, key, json.loads(known[0]), json.loads(text))
            kept.execute("delete from rows where key = ?", (key,))
        (result.n_gone,) = kept.execute("select count(*) from rows").fetchone()
        gone = kept.execute("select key from rows order by rowid limit ?", (FIRST,))
        result.gone = [key for (key,) in gone]
    return result


def note(listed: list[str], key: str) -> None:
    if len(listed) < FIRST:
        listed.append(key)


def note_change(
    result: TableDiff, key: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Note the columns that both releases have and that differ."""
    changes = {
        name: (before[name], after[name])
        for name in before
        if name in after and as_json(before[name]) != as_json(after[name])
    }
    if not changes:
        return
    result.n_changed += 1
    for name in changes:
        result.changed_columns[name] = result.changed_columns.get(name, 0) + 1
    if len(result.changed) < FIRST:
        result.changed[key] = changes


def keyed_rows(release: ReleaseFolder, table: Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their keys. Without a key, the whole row and how often it came before are one."""
    seen: Counter[str] = Counter()
    for batch in release.batches(table.name):
        for _, row in batch.numbered():
            if table.key:
                yield " ".join(str(row.get(name)) for name in table.key), row
                continue
            text = as_json(row)
            seen[text] += 1
            yield f"{text} #{seen[text]}" if seen[text] > 1 else text, row


@contextmanager
def kept_rows() -> Iterator[sqlite3.Connection]:
    with TemporaryDirectory(prefix="hsfiq-diff-") as folder:
        connection = sqlite3.connect(Path(folder) / "rows.db", isolation_level=None)
        try:
            connection.execute("pragma journal_mode = off")
            connection.execute("pragma synchronous = off")
            connection.execute("begin")
            connection.execute("create table rows (key text primary key, value text)")
            yield connection
        finally:
            connection.close()
