"""Releases and a study that tests share; a test that changes a release gets a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hsfiq.db.engine import Database
from hsfiq.kinds import KIND_OF_RELEASE, RELEASE_KINDS
from hsfiq.releases.layouts.layouts import Extras
from hsfiq.releases.splits import Split
from tests.hsfiq.imported_answers import write_imported_answers
from tests.hsfiq.releases.small_releases import OnDisk, small_study_at, write_release


@pytest.fixture(scope="session")
def small_pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The small study of pairs, which no test changes: 19 questions, of which one is flagged."""
    database, _ = small_study_at(tmp_path_factory.mktemp("pairs") / "study.db", "pair")
    yield database
    database.close()


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of every kind, under its name; `hp` has a split and layouts."""
    parent = tmp_path_factory.mktemp("sound")
    for name in RELEASE_KINDS:
        database, study = small_study_at(parent / f"{name}.db", KIND_OF_RELEASE[name].name)
        of_hp = (Split("both", seed=1, test_share=0.5), None, Extras(layouts=("csv", "trl")))
        write_release(database, study, name, parent / name, *(of_hp if name == "hp" else ()))
        database.close()
    return parent


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Callable[[str], OnDisk]:
    """Copy the release of a kind, in place of an earlier copy."""

    def copy(kind: str) -> OnDisk:
        shutil.rmtree(tmp_path / kind, ignore_errors=True)
        shutil.copytree(sound / kind, tmp_path / kind)
        return OnDisk(tmp_path / kind)

    return copy


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the test in a folder with a database of the hand-made study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)
    write_imported_answers()
