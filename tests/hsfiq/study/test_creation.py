"""Studies that are created while others write: in short transactions, all of a study or nothing."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import delete, select, text, update
from sqlalchemy.orm import Session

from hsfiq.actors import OWNER
from hsfiq.collect.studies import list_studies
from hsfiq.db import engine as engine_module
from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Dataset
from hsfiq.db.tables import Pair, Study, StudyCreation
from hsfiq.db.types import Base
from hsfiq.errors import Conflict, UnreadableInput
from hsfiq.kinds import KINDS
from hsfiq.next_study import pairs_asked
from hsfiq.rehearsal import SOURCES
from hsfiq.study import creation
from hsfiq.study.config import Checks, StudyConfig
from hsfiq.study.creation import LONGEST_PAUSE, create_study, delete_study
from tests.hsfiq.releases.small_releases import small_study_at
from tests.hsfiq.samples import hsfiq
from tests.hsfiq.study.parts import between_parts, questions_of, row_counts
from tests.processes import Fork
from tests.studies import SMALL, Seat, config, draw, make_queries

TEXT = """
[study]
name = "second"
title = "Which set fits?"
[design]
k = 2
questions_per_form = 2
[queries]
dataset = "small"
"""
WANTED = config(SMALL, "second", Checks(gold=1, repeated=1))


@pytest.fixture
def queries(database: Database) -> list[int]:
    return make_queries(database, {"shirt": 8, "dress": 8}, separate=True)


def create(database: Database, queries: list[int], wanted: StudyConfig = WANTED) -> None:
    create_study(database, wanted, queries, actor=OWNER, require=allow)


def allow(_session: Session, _study: Study) -> None:
    pass


def names(database: Database) -> list[str]:
    with database.reading() as session:
        return [study.name for study in list_studies(session)]


def test_answers_are_stored_while_a_study_is_created(
    database: Database, other: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = Seat.taken(other, draw(database, queries, name="running"))
    seen: list[list[str]] = []

    def answer() -> None:
        seen.append(names(other))
        seat.answer_until(len(seen) + 1)

    between_parts(monkeypatch, answer)
    create(database, queries)
    assert len(seen) > len(seat.question_ids)
    assert row_counts(database)["responses"] == len(seat.question_ids)
    assert {tuple(each) for each in seen} == {("running",)}
    assert names(other) == ["running", "second"]


def test_the_study_is_the_one_that_one_transaction_draws(
    database: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    between_parts(monkeypatch, lambda: None)
    create(database, queries)
    draw(database, queries, SMALL, "first", WANTED.checks)
    assert questions_of(database, "second") == questions_of(database, "first")
    with database.reading() as session:
        study = session.scalars(select(Study).where(Study.name == "second")).one()
        assert (study.status, study.origin) == ("open", "collected")
        assert session.scalars(select(StudyCreation)).all() == []


def test_a_study_that_is_refused_leaves_nothing(
    database: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    between_parts(monkeypatch, lambda: None)
    before = row_counts(database)

    def refuse(_session: Session, _study: Study) -> None:
        raise UnreadableInput("design", "is refused")

    with pytest.raises(UnreadableInput, match="is refused"):
        create_study(database, WANTED, queries, actor=OWNER, require=refuse)
    assert row_counts(database) == before


def test_a_name_that_another_study_takes_meanwhile(
    database: Database, other: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list[int]()

    def take() -> None:
        if not taken:
            taken.append(draw(other, queries, name="second"))

    between_parts(monkeypatch, take)
    with pytest.raises(UnreadableInput, match="already exists"):
        create(database, queries)
    assert names(database) == ["second"]
    assert row_counts(database)["study_creations"] == 0
    assert row_counts(database)["studies"] == 1


def test_a_creation_that_was_removed_ends(
    database: Database, other: Database, queries: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget() -> None:
        with other.writing() as session:
            session.execute(delete(StudyCreation))

    between_parts(monkeypatch, forget)
    with pytest.raises(Conflict, match="run the command again"):
        create(database, queries)
    assert names(database) == [] or "second" not in names(database)


def create_and_be_killed() -> None:
    """Kill this process, which creates a study, at the third pause."""
    pauses = []

    def pause(_seconds: float) -> None:
        pauses.append(1)
        if len(pauses) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    engine_module.PART_SECONDS = 0.0
    vars(engine_module)["sleep"] = pause
    database = open_database(sys.argv[1])
    create(database, json.loads(sys.argv[2]))


def test_a_killed_creation_is_invisible_and_removed_later(
    database: Database, database_url: str, queries: list[int], tmp_path: Path
) -> None:
    killed = Fork(create_and_be_killed, [database_url, json.dumps(queries)], tmp_path / "log")
    assert killed.wait(60) == -signal.SIGKILL, (tmp_path / "log").read_text(encoding="utf-8")
    assert names(database) == []
    with database.reading() as session:
        assert session.scalars(select(Pair.id)).all()
        assert pairs_asked(session) == set()
    backup = hsfiq("db", "backup", tmp_path / "backup", "--database", database_url, "--json")
    assert backup.result["studies"] == []
    toml = tmp_path / "study.toml"
    toml.write_text(TEXT, encoding="utf-8")
    add_images(database, tmp_path / "images")
    assert hsfiq("study", "create", toml, "--database", database_url).code == 0
    assert names(database) == ["second"]
    assert row_counts(database)["study_creations"] == 1

    with database.writing() as session:
        session.execute(
            update(StudyCreation).values(
                continued_at=datetime.now(UTC) - LONGEST_PAUSE - timedelta(seconds=1)
            )
        )
    toml.write_text(TEXT.replace("second", "third"), encoding="utf-8")
    assert hsfiq("study", "create", toml, "--database", database_url).code == 0
    after = row_counts(database)
    assert after["study_creations"] == 0
    assert after["studies"] == 2
    with database.reading() as session:
        of_studies = text("SELECT count(*) FROM pairs JOIN studies ON studies.id = study_id")
        assert session.scalar(of_studies) == after["pairs"] == 32
        assert after["retrieved_sets"] == 64


def add_images(database: Database, folder: Path) -> None:
    folder.mkdir()
    Picture.new("RGB", (6, 8), "red").save(folder / "shirt-0.png")
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=str(folder)))


def test_a_creation_goes_on_while_images_are_decoded(
    database: Database,
    other: Database,
    queries: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another command removes only what has not gone on for long."""
    monkeypatch.setattr(creation, "GO_ON_SECONDS", 0.0)
    times = list[datetime]()

    def track(names: Sequence[str]) -> Iterator[str]:
        for name in names:
            yield name
            with other.reading() as session:
                times.append(session.scalars(select(StudyCreation.continued_at)).one())

    add_images(database, tmp_path / "images")
    create_study(database, WANTED, queries, actor=OWNER, require=allow, track=track)
    assert times == sorted(set(times))
    assert len(times) > 2


# --------------------------------------------------------------------------------------- deletion

OTHERS = {
    *(table.name for table in SOURCES),
    *("settings", "accounts", "logins", "login_attempts", "audit_entries"),
}
OF_STUDIES = {table.name for table in Base.metadata.sorted_tables} - OTHERS
"""The tables that hold nothing but studies."""


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_deleted_study_leaves_nothing_of_its_own(tmp_path: Path, kind: str) -> None:
    """Of every question kind, with the answers of several participants."""
    database, key = small_study_at(tmp_path / "study.db", kind)
    with closing(database):
        before = row_counts(database)
        with database.writing() as session:
            study = session.get_one(Study, key)
            study.status = "closed"
            delete_study(session, study)
        after = row_counts(database)
    assert before["responses"] or before["search_turns"]
    assert {name: n for name, n in after.items() if n and name in OF_STUDIES} == {}
    assert {name: n for name, n in after.items() if name not in OF_STUDIES} == {
        name: n for name, n in before.items() if name not in OF_STUDIES
    }


def test_another_study_stays_and_the_backup_has_the_deleted_one(
    database: Database, database_url: str, queries: list[int], tmp_path: Path
) -> None:
    draw(database, queries, SMALL, "first")
    before = row_counts(database)
    second = draw(database, queries, SMALL, "second", Checks(gold=1, repeated=1))
    seat = Seat.taken(database, second)
    seat.submit(seat.question_ids[0])
    words = ("study", "delete", "second", "--database", database_url)
    words += ("--backup", str(tmp_path / "old.backup"), "--yes")
    refused = hsfiq(*words)
    assert refused.code == 2
    assert "study second is open; close it first" in refused.err
    (tmp_path / "old.backup").unlink(missing_ok=True)
    assert hsfiq("study", "close", "second", "--database", database_url).code == 0
    deleted = hsfiq(*words)
    assert deleted.code == 0, deleted.err
    assert "deleted, with 1 answer by 1 participant" in deleted.out
    after = row_counts(database)
    changed = {name for name in after if after[name] != before[name]}
    assert changed <= {"audit_entries"}
    copy = f"sqlite:///{tmp_path / 'copy.db'}"
    if database_url.startswith("sqlite"):
        assert hsfiq("db", "restore", tmp_path / "old.backup", "--database", copy).code == 0
        (_, _, row) = hsfiq("study", "list", "--database", copy).out.splitlines()
        assert row.split()[:2] == ["second", "closed"]


def test_a_deletion_is_confirmed_by_the_name(
    database: Database, queries: list[int], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(database, queries, SMALL, "first")
    assert hsfiq("study", "close", "first", "--database", database_url).code == 0
    before = row_counts(database)
    monkeypatch.setattr("sys.stdin", io.StringIO("second\n"))
    refused = hsfiq("study", "delete", "first", "--database", database_url)
    assert refused.code == 2
    assert "not confirmed; nothing was deleted" in refused.err
    assert row_counts(database) == before
