"""Backups of a database of either kind, and copies into an empty one, row by row and checked."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryFile
from typing import IO, Any

from sqlalchemy import Connection, Engine, Table, func, select, text
from sqlalchemy.exc import DBAPIError

from hsfiq.atomic_files import explained_write_errors, new_private_file, sha256_of
from hsfiq.db.engine import connect, connect_existing
from hsfiq.db.failures import reachable, shown_url
from hsfiq.db.schema import (
    create_or_migrate,
    foreign_keys_off,
    require_current,
    require_foreign_keys,
    require_known,
)
from hsfiq.db.sqlite import LOG_SUFFIXES, file_of, is_fresh_sqlite
from hsfiq.db.tables import METADATA
from hsfiq.errors import NothingToDo, UnreadableInput

# What a database holds: its schema revision, its studies with their answers, its rows by table.

RunQuery = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement on a connection and returns its rows."""

REVISION_TABLE = "alembic_version"
REQUIRED_TABLES = frozenset({REVISION_TABLE, "studies", "participants", "responses"})
"""The tables by which a database of hsfiq is recognized, at every schema revision."""

# One statement for both kinds of database and all schema revisions. An answer is a question with
# a response, however often it was revised. Studies that are still being created are left out.
STUDIES = """
SELECT studies.name,
  (SELECT count(*) FROM participants WHERE participants.study_id = studies.id),
  (SELECT count(DISTINCT responses.question_id) FROM responses
   JOIN questions ON questions.id = responses.question_id
   JOIN forms ON forms.id = questions.form_id WHERE forms.study_id = studies.id)
FROM studies WHERE substr(studies.name, 1, 14) <> 'being created ' ORDER BY studies.id
"""


@dataclass(frozen=True, slots=True)
class StudyContents:
    study: str
    participants: int
    answers: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one state of a database; `rows` counts the rows of each table."""

    revision: str
    studies: tuple[StudyContents, ...]
    rows: Mapping[str, int]

    @property
    def participants(self) -> int:
        return sum(study.participants for study in self.studies)

    @property
    def answers(self) -> int:
        return sum(study.answers for study in self.studies)

    def facts(self) -> dict[str, Any]:
        return {
            "schema_revision": self.revision,
            "participants": self.participants,
            "answers": self.answers,
            "studies": [
                {
                    "study": study.study,
                    "participants": study.participants,
                    "answers": study.answers,
                }
                for study in self.studies
            ],
        }


def read_contents(run_query: RunQuery, tables: Sequence[str], where: str) -> Contents:
    """Read the contents of a database with these tables.

    Raises:
        UnreadableInput: it is not an hsfiq database; `where` names it.
    """
    require_hsfiq_tables(tables, where)
    revisions = run_query(f"SELECT version_num FROM {REVISION_TABLE}")  # noqa: S608 -- a constant
    if len(revisions) != 1:
        raise UnreadableInput(where, "has no schema revision")
    rows = {table: int(run_query(count_statement(table))[0][0]) for table in sorted(tables)}
    studies = tuple(StudyContents(*row) for row in run_query(STUDIES))
    return Contents(str(revisions[0][0]), studies, rows)


def require_hsfiq_tables(tables: Iterable[str], where: str) -> None:
    if not REQUIRED_TABLES.issubset(tables):
        raise UnreadableInput(where, "does not hold an hsfiq database")


def count_statement(table: str) -> str:
    quoted = table.replace('"', '""')
    return f'SELECT count(*) FROM "{quoted}"'  # noqa: S608 -- quoted


# pg_dump and pg_restore: finding them, and running them on a database.

OLDEST = 12
"""The first version whose pg_restore writes to standard output on request."""

_QUOTED_VALUE = re.compile(r': ".*"$')


@dataclass(frozen=True, slots=True)
class Target:
    """The connection settings for PostgreSQL's programs."""

    options: tuple[str, ...]
    environment: dict[str, str]


def target_of(engine: Engine) -> Target:
    """The engine's database. The password is not an option, since other users can see options."""
    _, given = engine.dialect.create_connect_args(engine.url)
    # The driver adds objects of its own.
    settings = {key: str(value) for key, value in given.items() if isinstance(value, str | int)}
    password = settings.pop("password", None)
    options = " ".join(f"{key}={quoted(value)}" for key, value in settings.items())
    return Target((f"--dbname={options}",), {"PGPASSWORD": password} if password else {})


def quoted(value: str) -> str:
    """A value in a connection string of libpq."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def program(name: str, server: int = 0) -> str:
    """The path of a program that is not older than the server.

    `server` is the server's main version, such as 15.

    Raises:
        UnreadableInput: it is not installed, or too old.
    """
    path = shutil.which(name)
    needed = max(server, OLDEST)
    remedy = f"install the client programs of PostgreSQL {needed} or newer"
    if path is None:
        raise UnreadableInput(name, "is not installed", remedy)
    version = run_program(path, ["--version"], {}).decode()
    number = re.search(r"\(PostgreSQL\) (\d+)", version)
    if number is None or int(number[1]) < needed:
        raise UnreadableInput(name, f"is too old ({version.strip()})", remedy)
    return path


def run_program(path: str, options: Sequence[str], environment: dict[str, str]) -> bytes:
    """Run a program and return what it prints; `UnreadableInput` if it fails."""
    done = subprocess.run(  # noqa: S603 -- a program of PostgreSQL
        [path, *options],
        env=environment_with(environment),
        stdin=DEVNULL,
        capture_output=True,
        check=False,
    )
    require_success(path, done.returncode, done.stderr)
    return done.stdout


def start_program(path: str, options: Sequence[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a program whose output is read while it runs; its errors go to a file."""
    return subprocess.Popen(  # noqa: S603 -- a program of PostgreSQL
        [path, *options], env=environment_with({}), stdin=DEVNULL, stdout=PIPE, stderr=errors
    )


def environment_with(variables: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", **variables}


def require_success(path: str, code: int, errors: bytes) -> None:
    """Raise `UnreadableInput` with the program's error, unless it ended with 0."""
    if code == 0:
        return
    name = Path(path).name
    if code < 0:
        raise UnreadableInput(name, f"was ended by {signal.Signals(-code).name}")
    raise UnreadableInput(name, first_error(errors.decode("utf-8", "replace")))


def first_error(output: str) -> str:
    """The first line that names an error, without a value of a row that it may quote."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no reason given"]
    line = next((line for line in lines if " error: " in line), lines[0])
    return _QUOTED_VALUE.sub("", line.partition(" error: ")[2] or line)


# Backups of PostgreSQL databases: archives in pg_dump's custom format.

POSTGRES_MAGIC = b"PGDMP"

SCHEMA = text("SELECT current_schema()")
POSTGRES_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
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


def back_up_postgres(engine: Engine, where: str, draft: Path) -> Contents:
    """Write one state of a database to a file, even while other processes write to the database.

    Raises:
        UnreadableInput: pg_dump or pg_restore is missing or too old, or pg_dump fails.
        NothingToDo: the archive differs from the database.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        # The transaction exports the state that it counts, and pg_dump reads the same one.
        version = server_version(connection)
        dump, _ = program("pg_dump", version), program("pg_restore", version)
        schema, contents = postgres_contents(connection, where)
        target = target_of(engine)
        options = ["--format=custom", f"--file={draft}", "--no-password"]
        options += [f"--snapshot={connection.scalar(SNAPSHOT)}", *target.options]
        run_program(dump, options, target.environment)
    archived = archived_rows(draft, where).get(schema)
    if archived is None or not archived.matches(contents):
        raise NothingToDo(f"{where}: the archive differs from the database")
    return contents


def restore_postgres(file: Path, engine: Engine, where: str) -> Contents:
    """Restore an archive into a database without tables, in one transaction.

    Raises:
        UnreadableInput: the file is no backup of hsfiq, the database has tables, or pg_restore is
            missing, too old or fails.
        NothingToDo: the file is damaged, or the database differs from the backup.
    """
    archived = archived_rows(file, str(file))
    with engine.connect() as connection:
        pg_restore = program("pg_restore", server_version(connection))
        if connection.scalar(ALL_TABLES):
            raise UnreadableInput(where, "already has tables", "name a database without tables")
        target = target_of(engine)
    options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    options += ["--no-password", *target.options, str(file)]
    run_program(pg_restore, options, target.environment)
    with engine.connect() as connection:
        schema, contents = postgres_contents(connection, where)
    if schema not in archived or not archived[schema].matches(contents):
        raise NothingToDo(f"{where}: differs from the backup; drop the database, and restore again")
    return contents


def server_version(connection: Connection) -> int:
    """The server's main version, such as 15."""
    return int(connection.scalar(VERSION) or 0) // 10_000


def postgres_contents(connection: Connection, where: str) -> tuple[str, Contents]:
    """The PostgreSQL schema of hsfiq's tables, and their contents."""
    schema = str(connection.scalar(SCHEMA))
    tables = list(connection.scalars(POSTGRES_TABLES))
    return schema, read_contents(
        lambda query: connection.exec_driver_sql(query).all(), tables, where
    )


def archived_rows(file: Path, where: str) -> dict[str, SchemaRows]:
    """Read an archive completely, without a server; return its contents by PostgreSQL schema.

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
        raise UnreadableInput(where, "does not hold an hsfiq database")
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


# Backups of SQLite databases: a SQLite file without a write-ahead log.

SQLITE_MAGIC = b"SQLite format 3\0"

WRITE_VERSION = slice(18, 19)
"""The byte of a file's header that is 1 in backups, and 2 if a write-ahead log belongs to it."""

SQLITE_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


def back_up_sqlite(engine: Engine, where: str, draft: Path) -> Contents:
    """Copy one state of a database into an empty file; other processes may write meanwhile.

    Raises:
        NothingToDo: the copy differs from the database.
    """
    with engine.connect() as connection:
        # The connection's transaction keeps the state for both the counts and the copy.
        tables = [row[0] for row in connection.exec_driver_sql(SQLITE_TABLES)]
        contents = read_contents(
            lambda query: connection.exec_driver_sql(query).all(), tables, where
        )
        source = connection.connection.driver_connection
        if not isinstance(source, sqlite3.Connection):
            raise TypeError("not a connection of sqlite3")
        copy(source, draft)
    if sqlite_contents(draft, where) != contents:
        raise NothingToDo(f"{where}: the copy differs from the database")
    return contents


def restore_sqlite(file: Path, draft: Path) -> Contents:
    """Copy a backup into an empty file.

    Raises:
        UnreadableInput: the file is no backup.
        NothingToDo: the backup is damaged, or the copy differs from it.
    """
    require_backup(file)
    contents = sqlite_contents(file, str(file))
    with closing(read_only(file)) as source:
        copy(source, draft)
    if sqlite_contents(draft, str(file)) != contents:
        raise NothingToDo(f"{file}: the copy differs from the backup")
    return contents


def require_backup(file: Path) -> None:
    """Refuse a database that was copied by other means: it may lack the newest answers."""
    with file.open("rb") as opened:
        header = opened.read(100)
    if header[WRITE_VERSION] != b"\1":
        raise UnreadableInput(
            str(file),
            "was not made by `hsfiq db backup`, and may lack answers from its write-ahead log",
            "use the file directly, with --database",
        )


def copy(source: sqlite3.Connection, target_file: Path) -> None:
    """Copy one state of a database, as one file that needs no write-ahead log."""
    with closing(sqlite3.connect(target_file, isolation_level=None)) as target:
        # Without shared memory, which network file systems do not have.
        target.execute("PRAGMA locking_mode=EXCLUSIVE")
        source.backup(target)
        target.execute("PRAGMA journal_mode=DELETE")


def sqlite_contents(file: Path, where: str) -> Contents:
    """The contents of a file.

    Raises:
        NothingToDo: SQLite finds that it is damaged.
    """
    with damage_reported(where), closing(read_only(file)) as connection:
        (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise NothingToDo(f"{where}: damaged ({problem})")
        tables = [row[0] for row in connection.execute(SQLITE_TABLES)]
        contents = read_contents(lambda sql: connection.execute(sql).fetchall(), tables, where)
    require_known(contents.revision, where)
    return contents


@contextmanager
def damage_reported(where: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise NothingToDo(f"{where}: damaged ({error})") from error


def read_only(file: Path) -> sqlite3.Connection:
    """A connection to a file that no process changes."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)


# Back up and restore a database of either kind.

KINDS = {SQLITE_MAGIC: "sqlite", POSTGRES_MAGIC: "postgresql"}
"""The kind of database whose backups begin with these bytes."""

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup's file and its contents."""

    file: Path
    size: int
    sha256: str
    contents: Contents

    def facts(self) -> dict[str, Any]:
        about_file = {"file": str(self.file), "bytes": self.size, "sha256": self.sha256}
        return about_file | self.contents.facts()


def back_up(url: str, file: Path) -> Backup:
    """Write a new file, which only its owner can read, with one state of a database.

    Raises:
        UnreadableInput: the file exists or cannot be written, the database cannot be used, or
            PostgreSQL's programs cannot.
        NothingToDo: there is no database, or it is damaged.
    """
    where = shown_url(url)
    with engine_for(url, connect_existing) as engine:
        if is_fresh_sqlite(engine.url):
            raise NothingToDo(f"{where}: the database does not exist yet")
        is_sqlite = engine.dialect.name == "sqlite"
        write = back_up_sqlite if is_sqlite else back_up_postgres
        with explained_errors(file), new_private_file(file) as draft:
            contents = write(engine, where, draft)
            size, sha256 = draft.stat().st_size, sha256_of(draft)
    return Backup(file, size, sha256, contents)


def restore(file: Path, url: str) -> Contents:
    """Restore a backup into an empty database, completely or not at all.

    Raises:
        UnreadableInput: the file is no backup of this kind of database, the database holds
            something or cannot be written, or PostgreSQL's programs cannot be used.
        NothingToDo: the backup is damaged.
    """
    where, kind = shown_url(url), kind_of(file)
    with engine_for(url) as engine:
        if engine.dialect.name != kind:
            raise UnreadableInput(
                str(file),
                f"is a {NAMES[kind]} backup, but {where} is another kind of database",
                f"name a {NAMES[kind]} database with --database",
            )
        if kind == "postgresql":
            return restore_postgres(file, engine, where)
        path = file_of(engine.url)
        if path is None:
            raise UnreadableInput(
                where, "is kept in memory only", "name a file, as sqlite:///new.db"
            )
        require_unused(path)
        with explained_errors(path), new_private_file(path) as draft:
            return restore_sqlite(file, draft)


@contextmanager
def engine_for(url: str, opened_by: Callable[[str], Engine] = connect) -> Iterator[Engine]:
    """An engine for a URL; errors of its driver become `UnreadableInput`."""
    engine = opened_by(url)
    try:
        with reachable(url):
            yield engine
    finally:
        engine.dispose()


@contextmanager
def explained_errors(file: Path) -> Iterator[None]:
    """Turn errors of writing a file into `UnreadableInput`."""
    try:
        with explained_write_errors(file):
            yield
    except sqlite3.Error as error:
        raise UnreadableInput(str(file), f"cannot be written ({error})") from error


def kind_of(file: Path) -> str:
    """The kind of database that a file is a backup of; `UnreadableInput` if it is no backup."""
    try:
        with file.open("rb") as opened:
            beginning = opened.read(max(map(len, KINDS)))
    except OSError as error:
        raise UnreadableInput(str(file), f"cannot be read ({error.strerror})") from error
    for magic, kind in KINDS.items():
        if beginning.startswith(magic):
            return kind
    raise UnreadableInput(str(file), "was not made by `hsfiq db backup`")


def require_unused(path: Path) -> None:
    """Refuse a SQLite database that exists, or of which a file has been left.

    SQLite would apply a write-ahead log of another database to the one restored.
    """
    for suffix in ("", *LOG_SUFFIXES):
        if os.path.lexists(f"{path}{suffix}"):
            raise UnreadableInput(f"{path}{suffix}", "exists already", "name a new database")


# Copying a database into an empty one of either kind, row by row and checked.

ROWS_AT_ONCE = 1000

SEQUENCES = text(
    "SELECT pg_get_serial_sequence(quote_ident(table_name), column_name), table_name, column_name "
    "FROM information_schema.columns WHERE table_schema = current_schema() "
    "AND pg_get_serial_sequence(quote_ident(table_name), column_name) IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class TableContent:
    """The number of a table's rows, and a digest of their values in any order."""

    rows: int
    sha256: str


Content = Mapping[str, TableContent]


def copy_database(source: str, target: str) -> Content:
    """Copy all rows of one state of a database into an empty one, completely or not at all.

    Raises:
        UnreadableInput: a URL cannot be used, the source is not upgraded, or the target holds
            something.
        NothingToDo: there is no source, or the target would differ from it.
    """
    with engine_for(source, connect_existing) as engine:
        if is_fresh_sqlite(engine.url):
            raise NothingToDo(f"{shown_url(source)}: the database does not exist yet")
        require_current(engine, source)
        with reader(engine) as connection, engine_for(target) as into:
            if into.dialect.name == "postgresql":
                return into_postgres(connection, into, shown_url(target))
            path = file_of(into.url)
            if path is None:
                where = shown_url(target)
                raise UnreadableInput(where, "is kept in memory only", "name a file")
            require_unused(path)
            with explained_errors(path), new_private_file(path) as draft:
                return into_sqlite(connection, draft, shown_url(target))


@contextmanager
def reader(engine: Engine) -> Iterator[Connection]:
    """A connection with a consistent snapshot."""
    level = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    with engine.connect().execution_options(**level) as connection, connection.begin():
        yield connection


def into_postgres(source: Connection, engine: Engine, where: str) -> Content:
    """Make the tables and fill them in one transaction."""
    with engine.begin() as target:
        if target.scalar(ALL_TABLES):
            raise UnreadableInput(where, "already has tables", "name a database without tables")
        create_or_migrate(target)
        content = filled(source, target, where)
        for sequence, table, column in target.execute(SEQUENCES).all():
            highest = select(func.max(METADATA.tables[table].c[column])).scalar_subquery()
            target.execute(select(func.setval(sequence, highest)).where(highest.is_not(None)))
        return content


def into_sqlite(source: Connection, draft: Path, where: str) -> Content:
    """Make the tables in an empty file, and fill them."""
    engine = connect(f"sqlite:///{draft}")
    try:
        with (
            engine.execution_options(hsfiq_writes=True).connect() as target,
            foreign_keys_off(target),
            target.begin(),
        ):
            create_or_migrate(target)
            content = filled(source, target, where)
            require_foreign_keys(target)
            return content
    finally:
        engine.dispose()


def filled(source: Connection, target: Connection, where: str) -> Content:
    """Copy all tables, and compare source and target afterwards."""
    content = {}
    for table in METADATA.sorted_tables:
        copied = Digest()
        with refused_values(where, table):
            for rows in batches(source, table):
                copied.add(rows)
                target.execute(table.insert(), [dict(row) for row in rows])
        written = Digest()
        for rows in batches(target, table):
            written.add(rows)
        content[table.name] = copied.content()
        if written.content() != copied.content():
            raise NothingToDo(f"{where}: table {table.name} would differ; nothing was copied")
    return content


@contextmanager
def refused_values(where: str, table: Table) -> Iterator[None]:
    """Name the table whose values the target refuses, such as a NUL character in PostgreSQL."""
    try:
        yield
    except DBAPIError as error:
        lines = str(error.orig).strip().splitlines() or ["no reason given"]
        raise UnreadableInput(
            where, f"refuses a row of table {table.name} ({lines[0]}); nothing was copied"
        ) from error


def batches(connection: Connection, table: Table) -> Iterator[list[Mapping[str, Any]]]:
    """All rows in the order of the primary key, so that rows come after those they refer to."""
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=ROWS_AT_ONCE)
    for rows in connection.execute(query).mappings().partitions(ROWS_AT_ONCE):
        yield [dict(row) for row in rows]


class Digest:
    """The sum of the rows' digests, which does not depend on their order.

    Databases sort texts differently.
    """

    def __init__(self) -> None:
        self._rows = self._sum = 0

    def add(self, rows: list[Mapping[str, Any]]) -> None:
        for row in rows:
            values = repr(tuple(row.values())).encode("utf-8", "surrogatepass")
            self._sum += int.from_bytes(hashlib.sha256(values).digest(), "big")
        self._rows += len(rows)

    def content(self) -> TableContent:
        return TableContent(self._rows, f"{self._sum % 2**256:064x}")
