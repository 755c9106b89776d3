"""The ids of a release in a temporary SQLite file, so that they need not be in memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of the release: its row in the main table, and whose and about what it is."""

    row: int
    participant: str
    query: str


class Scratch:
    """Keys of tables, with the rows that have them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.participants: set[str] = set()
        connection.execute("pragma journal_mode = off")
        connection.execute("pragma synchronous = off")
        connection.execute("begin")
        connection.execute(
            "create table keys (place text, key text, row int, primary key (place, key))"
            " without rowid"
        )
        connection.execute(
            "create table questions (id text primary key, row int, participant text, query text)"
            " without rowid"
        )
        connection.execute(
            "create table sets (id text primary key, row int, question text, participant text,"
            " query text, facts text) without rowid"
        )

    def add_keys(
        self, place: str, keys: Iterable[tuple[int, str]]
    ) -> Iterator[tuple[int, str, int]]:
        """Keep keys of a table; those that an earlier row has, with both rows."""
        for row, key in keys:
            added = self.connection.execute(
                "insert or ignore into keys values (?, ?, ?)", (place, key, row)
            )
            if not added.rowcount:
                yield row, key, self.row_of(place, key)

    def row_of(self, place: str, key: str) -> int:
        (row,) = self.connection.execute(
            "select row from keys where place = ? and key = ?", (place, key)
        ).fetchone()
        return int(row)

    def unknown(self, place: str, values: Sequence[str]) -> set[str]:
        """Those of the values that are no key of the table."""
        rows = self.connection.execute(
            "select value from json_each(?) where not exists"
            " (select 1 from keys where place = ? and key = value)",
            (json.dumps(values), place),
        )
        return {value for (value,) in rows}

    def add_questions(self, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany("insert or ignore into questions values (?, ?, ?, ?)", rows)

    def asked(self, ids: Iterable[str | None]) -> dict[str, Asked]:
        """Those of the questions that the main table has."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ is not None]
        rows = self.connection.execute(
            "select q.id, row, participant, query from questions q"
            " join json_each(?) on q.id = value",
            (json.dumps(wanted),),
        )
        return {id_: Asked(*facts) for id_, *facts in rows}

    def has_participant(self, participant: str) -> bool:
        if not self.participants:
            rows = self.connection.execute("select distinct participant from questions")
            self.participants = {name for (name,) in rows}
        return participant in self.participants

    def add_sets(self, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany("insert or ignore into sets values (?, ?, ?, ?, ?, ?)", rows)

    def sets(self, ids: Iterable[str | None]) -> dict[str, dict[str, Any]]:
        """The facts about those of the sets that the release has."""
        wanted = [id_ for id_ in dict.fromkeys(ids) if id_ is not None]
        rows = self.connection.execute(
            "select s.id, question, facts from sets s join json_each(?) on s.id = value",
            (json.dumps(wanted),),
        )
        return {id_: {"question_id": own, **json.loads(facts)} for id_, own, facts in rows}


@contextmanager
def scratch() -> Iterator[Scratch]:
    with TemporaryDirectory(prefix="hsfiq-verify-") as folder:
        connection = sqlite3.connect(Path(folder) / "ids.db", isolation_level=None)
        try:
            yield Scratch(connection)
        finally:
            connection.close()
