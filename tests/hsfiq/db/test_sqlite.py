"""Who can read a SQLite database's files, also with the usual umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hsfiq.db.engine import Database, open_database
from hsfiq.db.source_tables import Setting
from hsfiq.db.sqlite import make_folder_private
from tests.hsfiq.samples import hsfiq

OTHER_USER = 12_345


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def keep(database: Database, key: str) -> None:
    with database.writing() as session:
        session.add(Setting(key=key, value=""))


def modes_in(folder: Path) -> dict[str, str]:
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in folder.iterdir()}


def test_only_the_owner_can_read_a_new_database(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path / 'a.db'}")) as database:
        keep(database, "a")
        assert modes_in(tmp_path) == {"a.db": "600", "a.db-wal": "600", "a.db-shm": "600"}
    assert modes_in(tmp_path) == {"a.db": "600"}
    assert hsfiq("db", "upgrade", "--database", f"sqlite:///{tmp_path / 'b.db'}").code == 0
    assert modes_in(tmp_path) == {"a.db": "600", "b.db": "600"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0o644, "600"),
        (0o666, "660"),
        (0o664, "660"),
        (0o660, "660"),
        (0o640, "600"),
        (0o600, "600"),
    ],
)
def test_others_lose_the_access_to_an_existing_database(
    tmp_path: Path, before: int, after: str
) -> None:
    """A group that may write keeps its access: it shares the file on purpose."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with closing(open_database(url)) as first:
        keep(first, "a")
        for file in tmp_path.iterdir():
            file.chmod(before)
        with closing(open_database(url)) as second:
            keep(second, "b")
            assert modes_in(tmp_path) == {"a.db": after, "a.db-wal": after, "a.db-shm": after}


def test_the_file_behind_a_link_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(f"sqlite:///{path}").close()
    path.chmod(0o644)
    (tmp_path / "link.db").symlink_to(path)
    with closing(open_database(f"sqlite:///{tmp_path / 'link.db'}")):
        assert set(modes_in(tmp_path).values()) == {"600"}


def test_unrelated_files_keep_their_modes(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("buy milk\n" * 1000)
    path.chmod(0o644)
    assert hsfiq("study", "list", "--database", f"sqlite:///{path}").code == 2
    assert modes_in(tmp_path) == {"notes.txt": "644"}


def test_files_of_another_user_keep_their_modes(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    path = tmp_path / "a.db"
    open_database(f"sqlite:///{path}").close()
    path.chmod(0o644)
    os.chown(path, OTHER_USER, OTHER_USER)
    open_database(f"sqlite:///{path}").close()
    assert modes_in(tmp_path) == {"a.db": "644"}


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    make_folder_private(tmp_path / "cache" / "new")
    (tmp_path / "old").mkdir()
    make_folder_private(tmp_path / "old")
    assert modes_in(tmp_path) == {"cache": "700", "old": "755"}
    assert modes_in(tmp_path / "cache") == {"new": "700"}
