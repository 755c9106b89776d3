"""Small inputs, the command line in this process, and the content of a database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from hsfiq import cli
from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database, open_database
from hsfiq.importing import dataset_named, import_published, import_source
from hsfiq.readers import datasets, hpfiq
from hsfiq.releases.content import Release, build
from hsfiq.releases.splits import Split
from hsfiq.study.filters import Filters
from tests.databases import migrated_sqlite

FIXTURES = Path(__file__).parent / "fixtures"
HPFIQ = FIXTURES / "hpfiq.json"
FASHIONIQ = FIXTURES / "fashioniq"
CIRR = FIXTURES / "cirr"
RUNS = FIXTURES / "runs"

on_sqlite = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
"""For tests with many cases that hardly depend on the kind of database."""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


def hsfiq(*arguments: str | Path) -> CommandResult:
    """Run a command in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run([str(argument) for argument in arguments])
    return CommandResult(code, out.getvalue(), err.getvalue())


def dump(path: Path) -> list[str]:
    """Everything in a SQLite file."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def imported(path: Path) -> list[str]:
    """Everything in a SQLite file but the audit log, which has repeated imports, too."""
    return [line for line in dump(path) if not line.startswith('INSERT INTO "audit_entries"')]


def published() -> Any:
    """A new copy of the hand-made published file as a JSON value."""
    return json.loads(HPFIQ.read_text(encoding="utf-8"))


def import_fashioniq(database: Database, folder: Path = FASHIONIQ) -> None:
    with database.writing() as session:
        dataset = dataset_named(session, "fashioniq")
        for source in datasets.read_fashioniq(folder):
            import_source(session, dataset, source)


def import_hpfiq(database: Database, path: Path = HPFIQ, name: str = "hpfiq") -> None:
    with database.writing() as session:
        import_published(session, name, hpfiq.read(path))


def new_database(path: Path) -> Database:
    """A new SQLite file with all tables, open."""
    path.write_bytes(migrated_sqlite())
    return open_database(f"sqlite:///{path}")


def release_of(
    database: Database,
    kind: str = "hp",
    filters: Filters | None = None,
    version: str = "1.0.0",
    split: Split | None = None,
) -> Release:
    """A release of the database's only study."""
    with database.reading() as session:
        (study,) = list_studies(session)
        options = filters or Filters(), split
        return build(session, study, kind, *options, schema_revision="test", version=version)


def rows(release: Release, table: str) -> list[dict[str, Any]]:
    """A table of a release."""
    return [json.loads(line) for line in release.files[f"{table}.jsonl"].splitlines()]
