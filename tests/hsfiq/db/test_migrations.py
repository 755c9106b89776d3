"""The revisions upgrade to the tables of the models, and can be downgraded."""

from __future__ import annotations

import ast
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, delete, insert, inspect, select, text, update
from sqlalchemy.engine import Inspector
from sqlalchemy.exc import DBAPIError, IntegrityError

from hsfiq.access.accounts import invite, set_owner_password
from hsfiq.access.logins import log_in
from hsfiq.access.roles import Role
from hsfiq.audit.actions import Action
from hsfiq.audit.actors import OWNER
from hsfiq.audit.log import record
from hsfiq.collect.answering.counts import count_stored_answers
from hsfiq.collect.participants import by_token
from hsfiq.db.change_tables import AllowedPerson, EnrolmentByAddress, StudyCreation
from hsfiq.db.engine import Database, connect
from hsfiq.db.schema import (
    alembic_config,
    current_revision,
    differences,
    foreign_keys_off,
    head_revision,
    migrations_folder,
    upgrade,
)
from hsfiq.db.searches.tables import (
    ImportedSearch,
    SearchEnding,
    SearchFeedback,
    SearchList,
    SearchTurn,
    SearchUpload,
)
from hsfiq.db.source_tables import Account, Image, ImageChange, LoginAttempts, Setting
from hsfiq.db.tables import Base, Question, Response, Study, TextVersion
from hsfiq.errors import UnreadableInput
from hsfiq.releases import Filters, export_releases
from hsfiq.releases.recording.record import Recorder
from hsfiq.study.config import Checks
from tests.arenas import ARENA, Voter, draw_arena
from tests.studies import NOW, SYSTEMS, Seat, draw, make_queries

REVISIONS = sorted((Path(__file__).parents[3] / "migrations" / "versions").glob("*.py"))


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    """An engine for a database without tables."""
    connected = connect(empty_url)
    yield connected
    connected.dispose()


def downgrade(engine: Engine, revision: str = "base") -> None:
    with engine.execution_options(hsfiq_writes=True).connect() as connection:
        on_sqlite = engine.dialect.name == "sqlite"
        keys_off = foreign_keys_off(connection) if on_sqlite else nullcontext()
        with keys_off, connection.begin():
            command.downgrade(alembic_config(connection), revision)


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
    Base.metadata.create_all(engine)
    of_models = schema(engine)
    Base.metadata.drop_all(engine)
    upgrade(engine)  # Alembic's own table is there, so that the revisions run
    migrated = Upgraded.of(engine)
    engine.dispose()
    return Schemas(created, upgraded_again, downgraded, of_models, migrated)


def test_autogenerate_proposes_no_change(schemas: Schemas) -> None:
    assert schemas.created.differences == []
    assert schemas.migrated.differences == []


def test_migrations_create_the_tables_of_the_models(schemas: Schemas) -> None:
    """Autogenerate ignores check constraints, so the complete schemas are compared."""
    migrated = schemas.migrated.tables
    assert schemas.of_models == migrated
    assert set(migrated) == set(Base.metadata.tables)
    assert "ck_responses_score_1" in migrated["responses"]["checks"]


def test_an_empty_database_gets_what_the_revisions_make(schemas: Schemas) -> None:
    assert schemas.migrated == schemas.created
    assert schemas.created.revision == head_revision()


def test_a_second_upgrade_changes_nothing(schemas: Schemas) -> None:
    assert schemas.upgraded_again == schemas.created


def test_a_downgrade_to_the_base_leaves_no_table(schemas: Schemas) -> None:
    assert schemas.downgraded == ({}, None)


def test_a_failed_upgrade_changes_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.stem)
def test_each_revision_can_be_downgraded(path: Path) -> None:
    functions = {
        node.name: node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert {"upgrade", "downgrade"} <= set(functions)
    assert not isinstance(functions["downgrade"].body[-1], ast.Pass | ast.Raise)


@pytest.mark.parametrize("path", REVISIONS, ids=lambda path: path.stem)
def test_revisions_do_not_import_the_models(path: Path) -> None:
    """A revision must not change when the models change."""
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


def test_a_text_that_a_release_lacks_is_not_downgraded(database: Database) -> None:
    voter = Voter.enrolled(database, draw_arena(database))
    question, *_ = voter.question_ids()
    voter.vote(question, 2)
    before = all_rows(database.engine)
    downgrade(database.engine, "0023")
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert differences(database.engine) == []
    with database.writing() as session:
        session.add(ImportedSearch(question_id=question, place=1, uploaded=False, repeats=[]))
        session.scalars(select(SearchTurn)).one().text = None
    before = all_rows(database.engine)
    with pytest.raises(IntegrityError):
        downgrade(database.engine, "0023")
    assert all_rows(database.engine) == before


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


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, without the columns that `tomorrow` adds."""
    with engine.connect() as connection:
        return {
            name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))
            ]
            for name, table in Base.metadata.tables.items()
        }


def keys_are_on(engine: Engine) -> bool:
    with engine.connect() as connection:
        return connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def answered(database: Database, name: str = "small") -> None:
    """Fill a database with a study, participants, answers and checks."""
    systems = [f"{name} {system}" for system in SYSTEMS]
    queries = make_queries(database, dataset=name, systems=systems)
    seat = Seat.taken(database, draw(database, queries, checks=Checks(repeated=1), name=name))
    seat.answer_all()


def test_answers_from_before_the_states_of_images_are_kept_and_unknown(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.execute(update(Response).values(images="s ss ss"))
    with_states = all_rows(database.engine)["responses"]
    downgrade(database.engine, "0001")
    upgrade(database.engine)
    position = list(Response.__table__.columns.keys()).index("images")
    assert all_rows(database.engine)["responses"] == [
        (*row[:position], None, *row[position + 1 :]) for row in with_states
    ]


def test_flags_of_imported_answers_become_unknown(database: Database) -> None:
    answered(database, "collected")
    collected = all_rows(database.engine)["responses"]
    answered(database, "imported")
    with database.writing() as session:
        imported = update(Study).where(Study.name == "imported").values(origin="imported")
        session.execute(imported)
    downgrade(database.engine, "0015")
    upgrade(database.engine)
    flags = select(Response.irrelevant).order_by(Response.id).offset(len(collected))
    assert all_rows(database.engine)["responses"][: len(collected)] == collected
    with database.reading() as session:
        assert set(session.scalars(flags)) == {None}
    downgrade(database.engine, "0015")
    with database.engine.connect() as connection:
        stored = connection.execute(text("SELECT irrelevant FROM responses ORDER BY id")).scalars()
        known = [flag for flag in stored.all()[len(collected) :] if flag is not None]
        assert {bool(flag) for flag in known} == {False}
    upgrade(database.engine)


def test_studies_from_before_other_kinds_ask_about_pairs(database: Database) -> None:
    answered(database)
    with database.writing() as session:  # a downgrade deletes them
        session.execute(delete(TextVersion))
        session.execute(update(Study).values(text_version=None))
    before = all_rows(database.engine)
    downgrade(database.engine, "0004")
    with pytest.raises(DBAPIError), database.engine.connect() as connection:
        connection.exec_driver_sql("SELECT kind FROM studies")
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    with database.reading() as session:
        assert session.scalars(select(Study.kind)).all() == ["pair"]


def test_flags_of_searches_become_unknown(database: Database) -> None:
    Seat.taken(database, draw(database, make_queries(database, dataset="pairs"))).answer_all()
    pairs = all_rows(database.engine)["responses"]
    question, *_ = Voter.enrolled(database, draw_arena(database)).question_ids()
    with database.writing() as session:
        session.add(
            Response(question_id=question, revision=1, submit_key="press", irrelevant=None,
                     judgement={"success": 4, "ease": 2, "would_go_on": False, "why": "enough"})
        )  # fmt: skip
        session.flush()
        count_stored_answers(session, session.get_one(Question, question).pair.study)
    before = all_rows(database.engine)
    downgrade(database.engine, "0021")
    with database.reading() as session:
        flag = select(Response.irrelevant).where(Response.question_id == question)
        assert session.scalars(flag).one() is False
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert before["responses"][:-1] == pairs


def test_searches_with_one_system_outlive_the_columns_of_arenas(database: Database) -> None:
    study = draw_arena(database, SYSTEMS[:1], replace(ARENA, kind="search"))
    question, *_ = Voter.enrolled(database, study).question_ids()
    with database.writing() as session:
        reference = session.get_one(Question, question).pair.query.triplet.reference_id
        assert reference is not None
        turn = SearchTurn(
            question_id=question, number=1, submit_key="press", reference_id=reference,
            text="is red", asked_at=NOW,
        )  # fmt: skip
        session.add(turn)
        session.flush()
        listed = SearchList(
            turn_id=turn.id, side=1, listed_at=NOW, seconds=0.5, image_ids=[reference],
            scores=[1.0], system_version="1", corpus_sha256="0" * 64,
        )  # fmt: skip
        feedback = SearchFeedback(
            turn_id=turn.id, satisfaction=4, nearest=1, nearest_side=1, images=" s",
            active_seconds=2.0, given_at=NOW,
        )  # fmt: skip
        ending = SearchEnding(
            question_id=question, submit_key="press", reason="declared", declared_id=reference,
            declared_side=1, ended_at=NOW,
        )  # fmt: skip
        session.add_all([listed, feedback, ending])
    before = all_rows(database.engine)
    downgrade(database.engine, "0017")
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert differences(database.engine) == []


def test_an_arena_is_not_downgraded(database: Database) -> None:
    voter = Voter.enrolled(database, draw_arena(database))
    voter.vote(voter.question_ids()[0], 2)
    before = all_rows(database.engine)
    with pytest.raises(IntegrityError):
        downgrade(database.engine, "0017")
    assert all_rows(database.engine) == before
    assert current_revision(database.engine) == head_revision()


def test_searches_without_pictures_outlive_their_table(database: Database) -> None:
    voter = Voter.enrolled(database, draw_arena(database))
    voter.vote(voter.question_ids()[0], 2)
    before = all_rows(database.engine)
    downgrade(database.engine, "0018")
    assert "search_uploads" not in inspect(database.engine).get_table_names()
    upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert differences(database.engine) == []


def test_a_search_about_a_picture_is_not_downgraded(database: Database) -> None:
    voter = Voter.enrolled(database, draw_arena(database))
    question, *_ = voter.question_ids()
    voter.vote(question, 2)
    with database.writing() as session:
        session.add(
            SearchUpload(
                question_id=question, submit_key="press", content=b"\xff\x00jpeg", sha256="0" * 64,
                width=2, height=1, uploaded_at=NOW,
            )
        )  # fmt: skip
        session.scalars(select(SearchTurn)).one().reference_id = None
    before = all_rows(database.engine)
    with pytest.raises(IntegrityError):
        downgrade(database.engine, "0018")
    assert all_rows(database.engine) == before
    assert current_revision(database.engine) == head_revision()


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
def test_a_revision_that_would_break_references_changes_nothing(
    database: Database, tomorrow: Callable[..., None]
) -> None:
    answered(database)
    before = all_rows(database.engine)
    revision = current_revision(database.engine)
    tomorrow("op.execute('DELETE FROM participants')")
    with pytest.raises(UnreadableInput, match=r"2 rows would refer .* forms\); nothing was ch"):
        upgrade(database.engine)
    assert all_rows(database.engine) == before
    assert current_revision(database.engine) == revision
    assert "tomorrow" not in str(inspect(database.engine).get_columns("questions"))
    assert keys_are_on(database.engine)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_failed_revision_leaves_foreign_keys_enabled(
    database: Database, tomorrow: Callable[..., None]
) -> None:
    answered(database)
    before = all_rows(database.engine)
    tomorrow("raise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        upgrade(database.engine)
    assert all_rows(database.engine) == before
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


def test_links_from_before_their_digests_stay_valid(database: Database) -> None:
    answered(database)
    token = "t" * 32
    downgrade(database.engine, "0019")
    with database.writing() as session:
        session.execute(text("UPDATE participants SET token = :token"), {"token": token})
    upgrade(database.engine)
    with database.reading() as session:
        person = by_token(session, token)
        assert person is not None
        assert token not in repr(all_rows(database.engine))
        assert by_token(session, person.token_hash) is None
    before = all_rows(database.engine)
    downgrade(database.engine, "0019")
    upgrade(database.engine)
    assert all_rows(database.engine) == before


def test_attempts_to_log_in_come_and_go_with_their_revision(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.add(LoginAttempts(client="c" * 64, delay=0.5, last_at=NOW, free_at=NOW))
    before = all_rows(database.engine)
    downgrade(database.engine, "0030")
    upgrade(database.engine)
    after = all_rows(database.engine)
    assert before.pop("login_attempts")
    assert after.pop("login_attempts") == []
    assert after == before


def test_a_downgrade_forgets_addresses_and_lists_of_people(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        study = session.scalars(select(Study)).one()
        session.add(EnrolmentByAddress(study_id=study.id, client="c" * 64, enrolled_at=NOW))
        session.add(AllowedPerson(study_id=study.id, person_hash="p" * 43))
    before = all_rows(database.engine)
    downgrade(database.engine, "0022")
    upgrade(database.engine)
    after = all_rows(database.engine)
    for table in ("enrolments_by_address", "allowed_people"):
        assert before.pop(table)
        assert after.pop(table) == []
    assert after == before


def test_digests_of_images_imported_before_are_unknown(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.execute(update(Image).values(sha256="d" * 64))
        session.add(ImageChange(image_id=1, found_at=NOW))
    downgrade(database.engine, "0024")
    upgrade(database.engine)
    with database.reading() as session:
        assert set(session.scalars(select(Image.sha256))) == {None}
        assert session.scalars(select(ImageChange)).all() == []


def test_what_a_creation_left_outlives_the_table_of_creations(database: Database) -> None:
    answered(database)
    with database.writing() as session:
        session.add(
            StudyCreation(study_id=session.scalars(select(Study.id)).one(), continued_at=NOW)
        )
    before = all_rows(database.engine)
    downgrade(database.engine, "0026")
    upgrade(database.engine)
    after = all_rows(database.engine)
    assert before.pop("study_creations")
    assert after.pop("study_creations") == []
    assert after == before


def test_records_of_releases_come_and_go_with_their_revision(
    database: Database, tmp_path: Path
) -> None:
    answered(database)
    bare = all_rows(database.engine)
    with database.reading() as session:
        study = session.scalars(select(Study)).one()
        recorder, folder = Recorder(database, OWNER), tmp_path / "release"
        export_releases(session, study, ["hp"], Filters(), folder=folder, in_place=recorder)
    recorded = all_rows(database.engine)
    new = ("exported_releases", "exported_forms", "audit_entries")
    assert all(recorded[table] for table in new)
    assert {table: recorded[table] for table in recorded if table not in new} == {
        table: bare[table] for table in bare if table not in new
    }
    downgrade(database.engine, "0027")
    assert not set(new) & set(inspect(database.engine).get_table_names())
    upgrade(database.engine)
    assert all_rows(database.engine) == bare
    assert differences(database.engine) == []


def test_participants_outlive_the_table_of_their_hits(database: Database) -> None:
    answered(database)
    row = "(participant_id, assignment_id, hit_id, submit_to)"
    with database.writing() as session:
        key = session.scalar(text("SELECT max(id) FROM participants"))
        hit = f"VALUES ({key}, '3XYZ', '30H4', 'https://www.mturk.com')"
        session.execute(text(f"INSERT INTO worked_hits {row} {hit}"))
    downgrade(database.engine, "0028")
    upgrade(database.engine)
    with database.reading() as session:
        assert session.scalar(text("SELECT max(id) FROM participants")) == key
        assert session.execute(text("SELECT * FROM worked_hits")).all() == []


def test_the_audit_log_goes_with_its_revision(database: Database) -> None:
    answered(database)
    bare = all_rows(database.engine)
    with database.writing() as session:
        record(session, OWNER, Action.STUDY_OPEN, study="a study", about="p1")
        record(session, OWNER, Action.LOGIN)
    assert len(all_rows(database.engine)["audit_entries"]) == 2
    downgrade(database.engine, "0029")
    assert "audit_entries" not in inspect(database.engine).get_table_names()
    upgrade(database.engine)
    assert all_rows(database.engine) == bare
    assert differences(database.engine) == []


def test_the_owner_keeps_the_password_through_the_table_of_accounts(database: Database) -> None:
    scrypt, argon2 = "scrypt$1$1$1$00$00", "$argon2id$v=19$m=1,t=1,p=1$AA$AA"
    stored = select(Setting.value).where(Setting.key == "owner_password")
    downgrade(database.engine, "0032")
    with database.writing() as session:
        session.execute(insert(Setting).values(key="owner_password", value=scrypt))
        session.execute(text("INSERT INTO owner_sessions VALUES ('digest', '2026-01-01 00:00:00')"))
    upgrade(database.engine)
    with database.writing() as session:
        owner = session.scalars(select(Account)).one()
        assert (owner.name, owner.role, owner.password) == ("owner", "owner", scrypt)
        assert not owner.is_disabled
        assert session.scalars(stored).all() == []
        log_in(session, owner, NOW)
        invite(session, "kim", Role.ANALYST, NOW)
    downgrade(database.engine, "0032")
    with database.reading() as session:
        assert session.scalars(stored).all() == [scrypt]
        assert session.execute(text("SELECT * FROM owner_sessions")).all() == []
    upgrade(database.engine)
    assert differences(database.engine) == []
    with database.writing() as session:
        set_owner_password(session, argon2)
    downgrade(database.engine, "0032")  # whose version cannot check this password
    with database.reading() as session:
        assert session.scalars(stored).all() == []
    upgrade(database.engine)
    with database.reading() as session:
        assert session.scalars(select(Account)).all() == []
