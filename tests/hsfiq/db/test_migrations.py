"""The revisions upgrade to the tables of the models, and can be downgraded."""

from __future__ import annotations

import ast
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, delete, inspect
from sqlalchemy.engine import Inspector
from sqlalchemy.exc import IntegrityError
from sqlalchemy.schema import CreateTable

from hsfiq.db.engine import Database, connect
from hsfiq.db.schema import (
    REVISION,
    alembic_config,
    current_revision,
    differences,
    foreign_keys_off,
    head_revision,
    known_revisions,
    migrations_folder,
    upgrade,
)
from hsfiq.db.tables import METADATA, Question
from hsfiq.errors import UnreadableInput
from tests.hsfiq.db.revisions import all_rows, answered, downgrade

REVISIONS = sorted((Path(__file__).parents[3] / "migrations" / "versions").glob("*.py"))


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    """An engine for a database without tables."""
    connected = connect(empty_url)
    yield connected
    connected.dispose()


def schema(engine: Engine) -> dict[str, Any]:
    """The description of all tables, with constraints by name."""
    inspector = inspect(engine)
    return {
        name: described(inspector, name)
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def described(inspector: Inspector, table: str) -> dict[str, Any]:
    return {
        "columns": {
            column["name"]: (str(column["type"]), column["nullable"], column["default"])
            for column in inspector.get_columns(table)
        },
        "primary key": inspector.get_pk_constraint(table),
        "foreign keys": by_name(inspector.get_foreign_keys(table)),
        "uniques": by_name(inspector.get_unique_constraints(table)),
        "checks": by_name(inspector.get_check_constraints(table)),
        "indexes": by_name([comparable(index) for index in inspector.get_indexes(table)]),
    }


def comparable(index: Any) -> dict[str, Any]:
    """A reflected index; conditions of partial ones are objects that equal only themselves."""
    options = index.get("dialect_options", {})
    return {**index, "dialect_options": {name: str(value) for name, value in options.items()}}


def by_name(constraints: list[Any]) -> dict[str, Any]:
    return {str(constraint["name"]): constraint for constraint in constraints}


def test_autogenerate_would_find_a_forgotten_column(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE responses DROP COLUMN reason")
        connection.exec_driver_sql("ALTER TABLE systems ADD COLUMN forgotten INTEGER")
    first, second = sorted(differences(engine))
    assert "add_column" in first
    assert "reason" in first
    assert "remove_column" in second
    assert "forgotten" in second


@dataclass(frozen=True)
class Upgraded:
    """A database's tables, its revision, and what autogenerate would change."""

    tables: dict[str, Any]
    revision: str | None
    differences: list[str]

    @classmethod
    def of(cls, engine: Engine) -> Upgraded:
        return cls(schema(engine), current_revision(engine), differences(engine))


@dataclass(frozen=True)
class Schemas:
    """What one empty database has after each step; the revisions take seconds."""

    created: Upgraded
    upgraded_again: Upgraded
    downgraded: tuple[dict[str, Any], str | None]
    of_models: dict[str, Any]
    migrated: Upgraded


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def schemas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Schemas:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('schemas') / 'empty.db'}"
    else:
        url = request.getfixturevalue("postgres_server").make()
    engine = connect(url)
    upgrade(engine)
    created = Upgraded.of(engine)
    upgrade(engine)
    upgraded_again = Upgraded.of(engine)
    downgrade(engine)
    downgraded = schema(engine), current_revision(engine)
    METADATA.create_all(engine)
    of_models = schema(engine)
    METADATA.drop_all(engine)
    upgrade(engine)  # Alembic's own table is there, so that the revisions run
    migrated = Upgraded.of(engine)
    engine.dispose()
    return Schemas(created, upgraded_again, downgraded, of_models, migrated)


def test_migrations_create_the_tables_of_the_models(schemas: Schemas) -> None:
    """Autogenerate ignores check constraints, so the complete schemas are compared, too."""
    assert schemas.created.differences == []
    migrated = schemas.migrated.tables
    assert schemas.of_models == migrated
    assert set(migrated) == set(METADATA.tables)
    assert "ck_responses_score_1" in migrated["responses"]["checks"]


def test_an_empty_database_gets_what_the_revisions_make(schemas: Schemas) -> None:
    """Twice, it is the same, and after a downgrade to the base no table is left."""
    assert schemas.migrated == schemas.upgraded_again == schemas.created
    assert schemas.created.revision == head_revision()
    assert schemas.downgraded == ({}, None)


def test_the_table_of_the_revision_is_that_of_alembic(engine: Engine) -> None:
    with engine.connect() as connection:
        made_by_alembic = MigrationContext.configure(connection)._version
    assert str(CreateTable(REVISION)) == str(CreateTable(made_by_alembic))


def test_several_revisions_are_refused(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
    with pytest.raises(UnreadableInput, match="the database has 2 schema revisions"):
        current_revision(engine)


def test_the_revisions_are_those_of_alembic() -> None:
    scripts = ScriptDirectory.from_config(alembic_config())
    assert known_revisions() == tuple(script.revision for script in scripts.walk_revisions())


def test_a_failed_upgrade_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    # The revision is written last, when every table stands.
    monkeypatch.setattr("hsfiq.db.schema.head_revision", fail)
    with pytest.raises(ZeroDivisionError):
        upgrade(engine)
    monkeypatch.undo()
    assert schema(engine) == {}
    upgrade(engine)
    assert differences(engine) == []


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.stem)
def test_each_revision_can_be_downgraded_and_imports_no_models(path: Path) -> None:
    """A revision must not change when the models change."""
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"upgrade", "downgrade"} <= set(functions)
    assert not isinstance(functions["downgrade"].body[-1], ast.Pass | ast.Raise)
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None), *(alias.name for alias in node.names))
    ]
    assert not [name for name in imported if name and name.partition(".")[0] == "hsfiq"]


# ------------------------------------------------------------------------------ future revisions

NEXT = '''
"""A revision of tomorrow."""

import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in {tables!r}:
        with op.batch_alter_table(table, recreate="{recreate}") as batch:
            batch.add_column(sa.Column("tomorrow", sa.Integer(), server_default="7"))
    {statements}


def downgrade() -> None:
    for table in {tables!r}:
        with op.batch_alter_table(table) as batch:
            batch.drop_column("tomorrow")
'''

REFERRED_TO = ["studies", "participants", "forms", "pairs", "questions", "retrieved_sets", "images"]


@pytest.fixture
def tomorrow(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Adds a further revision after the newest, in a copy of the migrations folder."""

    def write_revision(statements: str = "pass") -> None:
        head, folder = head_revision(), tmp_path / "migrations"
        shutil.copytree(migrations_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
        # PostgreSQL alters tables in place.
        recreate = "always" if kind == "sqlite" else "auto"
        text = NEXT.format(head=head, tables=REFERRED_TO, statements=statements, recreate=recreate)
        (folder / "versions" / "0999_next.py").write_text(text)
        monkeypatch.setattr("hsfiq.db.schema.migrations_folder", lambda: folder)

    return write_revision


def keys_are_on(engine: Engine) -> bool:
    with engine.connect() as connection:
        return connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_revision_may_alter_tables_that_others_refer_to(
    database: Database, kind: str, tomorrow: Callable[..., None]
) -> None:
    answered(database)
    before = all_rows(database.engine)
    assert sum(map(len, before.values())) > 100
    tomorrow()
    upgrade(database.engine)
    assert current_revision(database.engine) == "next"
    assert all_rows(database.engine) == before
    columns = {column["name"] for column in inspect(database.engine).get_columns("questions")}
    assert "tomorrow" in columns
    with pytest.raises(IntegrityError), database.writing() as session:
        session.execute(delete(Question))
    if kind == "sqlite":
        assert keys_are_on(database.engine)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("statements", "error"),
    [
        ("op.execute('DELETE FROM participants')", UnreadableInput),
        ("raise ZeroDivisionError", ZeroDivisionError),
    ],
    ids=["broken references", "failed"],
)
def test_a_revision_that_fails_changes_nothing_and_leaves_foreign_keys_enabled(
    database: Database, tomorrow: Callable[..., None], statements: str, error: type[Exception]
) -> None:
    answered(database)
    before, revision = all_rows(database.engine), current_revision(database.engine)
    tomorrow(statements)
    with pytest.raises(error) as refused:
        upgrade(database.engine)
    assert error is ZeroDivisionError or "2 rows would refer" in str(refused.value)
    assert all_rows(database.engine) == before
    assert current_revision(database.engine) == revision
    assert "tomorrow" not in str(inspect(database.engine).get_columns("questions"))
    assert keys_are_on(database.engine)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_connection_without_foreign_keys_is_discarded(database: Database) -> None:
    with database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        with foreign_keys_off(connection):
            connection.begin()  # within a transaction the setting cannot change
        assert connection.invalidated
    with pytest.raises(sqlite3.ProgrammingError):
        raw.execute("SELECT 1")  # type: ignore[union-attr]
    assert keys_are_on(database.engine)
