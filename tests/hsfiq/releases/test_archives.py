"""Exporting a SQLite file that cannot be written to, as on read-only media."""

from __future__ import annotations

import importlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hsfiq import cli
from hsfiq.releases.export import content_of
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.samples import HPFIQ, hsfiq
from tests.processes import Fork

NOBODY = 65534

IMPORTED_LATER = (
    "alembic.autogenerate",
    "hsfiq.backup",
    "hsfiq.cli.export",
    "hsfiq.releases.content",
    "hsfiq.study.config_file",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.fixture
def out() -> Iterator[Path]:
    """A folder to which every user can write."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def archive(folder: Path) -> Path:
    """A database with the hand-made study."""
    write_imported_answers(folder / "archive.db")
    return folder / "archive.db"


def run_without_rights() -> None:
    """Run a command as a user who owns nothing; root could write everywhere.

    That user may not be allowed to read root's Python, from which commands import when they run.
    """
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    sys.exit(cli.run(sys.argv[1:]))


def run_read_only(archive: Path, log: Path, *words: str | Path) -> int:
    archive.chmod(0o444)
    archive.parent.chmod(0o555)
    arguments = ["--database", f"sqlite:///{archive}", *words]
    return Fork(run_without_rights, arguments, log).wait()


def test_an_archive_is_exported(archive: Path, out: Path, tmp_path: Path) -> None:
    """Also one with the digest of an address that commands would delete."""
    export, log = ("export", "--release", "hp", "--out"), tmp_path / "log.txt"
    assert hsfiq("--database", f"sqlite:///{archive}", *export, tmp_path / "hp").code == 0
    with closing(sqlite3.connect(archive)) as connection, connection:
        connection.execute(
            "INSERT INTO enrolments_by_address (study_id, client, enrolled_at) "
            "SELECT id, 'digest', '2020-01-01 00:00:00' FROM studies"
        )
    before = archive.read_bytes()
    assert run_read_only(archive, log, *export, out / "hp") == 0, log.read_text()
    *_, note = log.read_text().splitlines()
    assert note.startswith("note: hpfiq-hp not recorded in the database (")
    assert "can only be read" in note
    assert content_of(out / "hp") == content_of(tmp_path / "hp")
    assert archive.read_bytes() == before
    assert [path.name for path in archive.parent.iterdir()] == ["archive.db"]


def test_an_archive_with_a_log_is_refused(archive: Path, tmp_path: Path) -> None:
    archive.with_name("archive.db-wal").write_bytes(b"answers")
    log = tmp_path / "log.txt"
    assert run_read_only(archive, log, "export", "--explain") == 2
    (line,) = log.read_text().splitlines()
    assert "archive.db-wal beside it may have answers" in line
    assert "copy archive.db and archive.db-wal together" in line


@pytest.mark.parametrize("has_log", [False, True])
def test_an_archive_is_backed_up_and_checked(
    archive: Path, out: Path, tmp_path: Path, has_log: bool
) -> None:
    """Also with a log beside it, as on a disk that became read-only under a server."""
    if has_log:
        opened = sqlite3.connect(archive)
        opened.execute("PRAGMA journal_mode=WAL")
        opened.execute("UPDATE studies SET name = 'in the log'")
        opened.commit()
        for suffix in ("", "-wal", "-shm"):
            shutil.copyfile(f"{archive}{suffix}", f"{archive}{suffix}.copy")
        opened.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{archive}{suffix}.copy").rename(f"{archive}{suffix}")
            Path(f"{archive}{suffix}").chmod(0o444)
    before = {path.name: path.read_bytes() for path in archive.parent.iterdir()}
    log = tmp_path / "log.txt"
    for words in (["check"], ["current"], ["backup", out / "b.backup"]):
        assert run_read_only(archive, log, "db", *words) == 0, log.read_text()
    printed = log.read_text()
    assert "is not in the audit log (the database can only be read" in printed
    assert ("in the log" if has_log else "hpfiq") in printed
    restored = f"sqlite:///{tmp_path / 'restored.db'}"
    assert hsfiq("db", "restore", out / "b.backup", "--database", restored).code == 0
    assert {path.name: path.read_bytes() for path in archive.parent.iterdir()} == before


def test_an_archive_cannot_be_changed(archive: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert run_read_only(archive, log, "import", "hpfiq", HPFIQ, "--study", "again") == 2
    (line,) = log.read_text().splitlines()
    assert "readonly database" in line
