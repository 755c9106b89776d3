"""`hsfiq db copy`: between both kinds of database, without a change, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url, select, text

from hsfiq.collect import participants
from hsfiq.db.engine import Database, connect, open_database
from hsfiq.db.source_tables import Image
from tests.hsfiq.backup.test_backups import audit_log_of, complaint, record_one, rows_at
from tests.hsfiq.samples import CommandResult, hsfiq
from tests.studies import OTHER, Seat, small_study

pytestmark = pytest.mark.postgres

DIGEST = "d" * 64
REASON = 'öß \u202e 👗 \'s "quoted", a\\nb'


@pytest.fixture
def seat(database: Database) -> Seat:
    seat = Seat.taken(database, small_study(database))
    seat.answer_until(4)
    seat.submit(seat.question_ids[0], OTHER, revision=1)
    with database.writing() as session:
        session.execute(text("UPDATE responses SET reason = :reason"), {"reason": REASON})
        session.execute(text("UPDATE images SET sha256 = :digest WHERE id = 1"), {"digest": DIGEST})
    return seat


def url_of(database: Database) -> str:
    return database.engine.url.render_as_string(hide_password=False)


def copy(source: str, target: str) -> CommandResult:
    return hsfiq("db", "copy", source, target, "--json")


def digests_at(url: str) -> set[str | None]:
    opened = open_database(url)
    with opened.reading() as session:
        digests = set(session.scalars(select(Image.sha256)))
    opened.close()
    return digests


def tables_of(result: CommandResult) -> dict[str, dict[str, object]]:
    tables: dict[str, dict[str, object]] = json.loads(result.out)["tables"]
    return tables


def test_a_copy_holds_the_same_and_goes_on(
    seat: Seat, database: Database, empty_postgres: str, tmp_path: Path
) -> None:
    source = url_of(database)
    record_one(database)
    before = rows_at(source)
    result = copy(source, empty_postgres)
    assert result.err == ""
    assert tables_of(result)["responses"]["rows"] == 4
    back = f"sqlite:///{tmp_path / 'back.db'}"
    again = copy(empty_postgres, back)
    copied, copied_again = tables_of(result), tables_of(again)
    assert (copied.pop("audit_entries")["rows"], copied_again.pop("audit_entries")["rows"]) == (
        1,
        2,
    )
    assert copied_again == copied
    assert rows_at(source) == before
    assert audit_log_of(source) == ["study.pause", "db.copy"]
    assert audit_log_of(back) == ["study.pause", "db.copy", "db.copy"]
    for url in (empty_postgres, back):
        assert digests_at(url) == {DIGEST, None}
    for url in (empty_postgres, back):  # new rows get new keys
        opened = open_database(url)
        with opened.writing() as session:
            participants.invite(session, 1, 1, now=datetime.now(UTC))
        opened.close()


def test_the_target_must_be_empty(
    seat: Seat, database: Database, empty_postgres: str, tmp_path: Path
) -> None:
    (tmp_path / "old.db").write_bytes(b"something")
    assert "already" in complaint(copy(url_of(database), f"sqlite:///{tmp_path / 'old.db'}"))
    assert (tmp_path / "old.db").read_bytes() == b"something"
    engine = connect(empty_postgres)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE mine (id integer)"))
    assert "has tables already" in complaint(copy(url_of(database), empty_postgres))
    engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_value_that_postgresql_refuses_leaves_nothing(
    seat: Seat, database: Database, empty_postgres: str
) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE responses SET reason = 'a' || char(0) || 'b' WHERE id = 2"))
    line = complaint(copy(url_of(database), empty_postgres))
    assert "table responses" in line
    assert "nothing was copied" in line
    assert rows_at(empty_postgres) == {}


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_what_cannot_be_copied_is_told_in_one_line(
    database: Database, empty_postgres: str, tmp_path: Path
) -> None:
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    assert "no database yet" in complaint(copy(missing, empty_postgres), 1)
    assert "no/such" in complaint(copy(url_of(database), f"sqlite:///{tmp_path}/no/such/a.db"))
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert "hsfiq db upgrade" in complaint(copy(url_of(database), empty_postgres))


def test_a_password_in_the_command_is_warned_of(
    seat: Seat, database: Database, empty_postgres: str, tmp_path: Path
) -> None:
    url = make_url(empty_postgres).set(username="postgres", password="SECRET")
    target = url.render_as_string(hide_password=False)
    for words in (
        ("db", "copy", url_of(database), target),
        ("db", "check", "--database", target),
        ("db", "backup", str(tmp_path / "file"), "--database", target),
        ("study", "list", "--database", target),
        ("doctor", "--database", target),
    ):
        result = hsfiq(*words)
        assert "SECRET" not in result.err
        assert result.err.count("other users can see the password in postgresql") == 1, words
