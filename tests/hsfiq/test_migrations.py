"""The revisions lead to the tables that the models describe, there and back again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect
from sqlalchemy.engine import Inspector

from hsfiq.database import (
    alembic_config,
    connect,
    current_revision,
    differences,
    head_revision,
    migrations_folder,
    upgrade,
)
from hsfiq.tables import Base

REVISIONS = sorted((Path(__file__).parents[2] / "migrations" / "versions").glob("*.py"))


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    """An engine over a database without any table."""
    made = connect(empty_url)
    yield made
    made.dispose()


def downgrade(engine: Engine) -> None:
    with engine.execution_options(hsfiq_writes=True).begin() as connection:
        command.downgrade(alembic_config(connection), "base")


def schema(engine: Engine) -> dict[str, Any]:
    """All that a database says of its tables, constraints by name included."""
    found = inspect(engine)
    return {
        name: described(found, name)
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def described(found: Inspector, table: str) -> dict[str, Any]:
    return {
        "columns": {
            column["name"]: (str(column["type"]), column["nullable"], column["default"])
            for column in found.get_columns(table)
        },
        "primary key": found.get_pk_constraint(table),
        "foreign keys": by_name(found.get_foreign_keys(table)),
        "uniques": by_name(found.get_unique_constraints(table)),
        "checks": by_name(found.get_check_constraints(table)),
        "indexes": by_name(found.get_indexes(table)),
    }


def by_name(constraints: list[Any]) -> dict[str, Any]:
    return {str(constraint["name"]): constraint for constraint in constraints}


def test_autogenerate_finds_nothing_to_do(engine: Engine) -> None:
    upgrade(engine)
    assert differences(engine) == []


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


def test_migrations_make_what_the_models_describe(
    engine: Engine, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Autogenerate says nothing of check constraints, so the two schemas are compared whole."""
    upgrade(engine)
    migrated = schema(engine)
    downgrade(engine)
    Base.metadata.create_all(engine)
    assert schema(engine) == migrated
    assert set(migrated) == set(Base.metadata.tables)
    assert "ck_responses_score_1" in migrated["responses"]["checks"]


def test_upgrade_twice_is_upgrade_once(engine: Engine) -> None:
    upgrade(engine)
    once = schema(engine)
    upgrade(engine)
    assert schema(engine) == once
    assert current_revision(engine) == head_revision()


def test_down_to_the_base_and_up_again(engine: Engine) -> None:
    upgrade(engine)
    before = schema(engine)
    downgrade(engine)
    assert schema(engine) == {}
    assert current_revision(engine) is None
    upgrade(engine)
    assert schema(engine) == before
    assert differences(engine) == []


def test_an_upgrade_that_fails_leaves_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    # The revision is written last, when every table stands.
    monkeypatch.setattr("alembic.runtime.migration.HeadMaintainer.update_to_step", fail)
    with pytest.raises(ZeroDivisionError):
        upgrade(engine)
    monkeypatch.undo()
    assert schema(engine) == {}
    upgrade(engine)
    assert differences(engine) == []


def test_there_is_one_line_of_revisions() -> None:
    script = ScriptDirectory.from_config(alembic_config())
    assert len(script.get_heads()) == 1
    assert len(script.get_bases()) == 1
    assert len(list(script.walk_revisions())) == len(REVISIONS) > 0
    assert migrations_folder().joinpath("versions", REVISIONS[0].name).is_file()


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.stem)
def test_each_revision_can_be_taken_back(path: Path) -> None:
    functions = {
        node.name: node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert {"upgrade", "downgrade"} <= set(functions)
    assert not isinstance(functions["downgrade"].body[-1], ast.Pass | ast.Raise)


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.stem)
def test_revisions_do_not_lean_on_the_models(path: Path) -> None:
    """A revision must stay what it was when the tables move on."""
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not {name for name in imported if name.partition(".")[0] == "hsfiq"}
