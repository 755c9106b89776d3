"""Backups of PostgreSQL databases: archives in pg_dump's custom format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import Connection, Engine, text

from hsfiq.backup.contents import (
    REVISION_TABLE,
    Contents,
    read_contents,
    require_hsfiq_tables,
)
from hsfiq.backup.postgres_programs import (
    program,
    require_success,
    run_program,
    start_program,
    target_of,
)
from hsfiq.db.schema import require_known
from hsfiq.errors import NothingToDo, UnreadableInput

MAGIC = b"PGDMP"

SCHEMA = text("SELECT current_schema()")
TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
ALL_TABLES = text(
    "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
)
SNAPSHOT = text("SELECT pg_export_snapshot()")
VERSION = text("SELECT current_setting('server_version_num')")

_COPY = re.compile(rb'COPY (\w+|"(?:[^"]|"")+")\.(\w+) \(.*\) FROM stdin;')


@dataclass(frozen=True, slots=True)
class SchemaRows:
    """What an archive holds of one PostgreSQL schema: hsfiq's revision, and rows by table."""

    revision: str
    rows: Mapping[str, int]

    def matches(self, contents: Contents) -> bool:
        return (self.revision, self.rows) == (contents.revision, contents.rows)


def back_up(engine: Engine, where: str, draft: Path) -> Contents:
    """Write one state of a database to a file; other processes may write to it meanwhile.

    Raises:
        UnreadableInput: pg_dump or pg_restore is missing or too old, or pg_dump fails.
        NothingToDo: the archive does not hold what the database holds.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        # The transaction exports the state that it counts, and pg_dump reads the same one.
        version = server_version(connection)
        dump, _ = program("pg_dump", version), program("pg_restore", version)
        schema, contents = contents_of(connection, where)
        target = target_of(engine)
        options = ["--format=custom", f"--file={draft}", "--no-password"]
        options += [f"--snapshot={connection.scalar(SNAPSHOT)}", *target.options]
        run_program(dump, options, target.environment)
    archived = archived_rows(draft, where).get(schema)
    if archived is None or not archived.matches(contents):
        raise NothingToDo(f"{where}: the archive differs from the database")
    return contents


def restore(file: Path, engine: Engine, where: str) -> Contents:
    """Restore an archive into a database without tables, in one transaction.

    Raises:
        UnreadableInput: the file is no backup of hsfiq, the database has tables, or pg_restore is
            missing, too old or fails.
        NothingToDo: the file is damaged, or the database does not hold what it holds.
    """
    archived = archived_rows(file, str(file))
    with engine.connect() as connection:
        pg_restore = program("pg_restore", server_version(connection))
        if connection.scalar(ALL_TABLES):
            raise UnreadableInput(where, "has tables already", "name a database without tables")
        target = target_of(engine)
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    options += ["--no-password", *target.options, str(file)]
    run_program(pg_restore, options, target.environment)
    with engine.connect() as connection:
        schema, contents = contents_of(connection, where)
    if schema not in archived or not archived[schema].matches(contents):
        raise NothingToDo(f"{where}: differs from the backup; drop it, and restore again")
    return contents


def server_version(connection: Connection) -> int:
    """The server's main version, such as 15."""
    return int(connection.scalar(VERSION) or 0) // 10_000


def contents_of(connection: Connection, where: str) -> tuple[str, Contents]:
    """The PostgreSQL schema of hsfiq's tables, and what they hold."""
    schema = str(connection.scalar(SCHEMA))
    tables = list(connection.scalars(TABLES))
    return schema, read_contents(
        lambda query: connection.exec_driver_sql(query).all(), tables, where
    )


def archived_rows(file: Path, where: str) -> dict[str, SchemaRows]:
    """Read an archive to its end, without a server; return what it holds by PostgreSQL schema.

    Raises:
        UnreadableInput: pg_restore is missing or too old, or it is no archive of hsfiq.
        NothingToDo: the archive is damaged.
    """
    path = program("pg_restore")
    with (
        TemporaryFile() as errors,
        start_program(path, ["--data-only", "--file=-", str(file)], errors) as process,
    ):
        if process.stdout is None:
            raise TypeError("a process without output")
        rows, revisions = count_rows(process.stdout)
        code = process.wait()
        errors.seek(0)
        try:
            require_success(path, code, errors.read())
        except UnreadableInput as error:
            raise NothingToDo(f"{where}: cannot be read completely ({error.what})") from error
    for schema, revision in revisions.items():
        require_hsfiq_tables(rows[schema], where)
        require_known(revision, where)
    if not revisions:
        raise UnreadableInput(where, "holds no database of hsfiq")
    return {schema: SchemaRows(revisions[schema], rows[schema]) for schema in revisions}


def count_rows(lines: Iterable[bytes]) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Read the output of pg_restore.

    Return the rows of each table and the revisions of hsfiq's schema, by PostgreSQL schema.
    """
    rows: dict[str, dict[str, int]] = {}
    revisions: dict[str, str] = {}
    schema = table = ""
    for line in lines:
        if not table:
            if begin := _COPY.match(line):
                schema, table = (name.decode().strip('"') for name in begin.groups())
                rows.setdefault(schema, {})[table] = 0
        elif line == b"\\.\n":
            table = ""
        else:
            rows[schema][table] += 1
            if table == REVISION_TABLE:
                revisions[schema] = line.decode().strip()
    return rows, revisions
