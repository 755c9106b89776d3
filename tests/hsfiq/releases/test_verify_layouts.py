"""`hsfiq release verify` compares layouts and parts with the tables that they were made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hsfiq.db.engine import open_database
from hsfiq.releases.layouts.layouts import Extras
from hsfiq.releases.splits import Split
from tests.databases import migrated_sqlite
from tests.hsfiq.releases.small_releases import OnDisk, small_study_of, write_release
from tests.hsfiq.samples import hsfiq


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hp release with a split, as CSV and for TRL, too."""
    parent = tmp_path_factory.mktemp("layouts")
    (parent / "study.db").write_bytes(migrated_sqlite())
    database = open_database(f"sqlite:///{parent / 'study.db'}")
    study = small_study_of(database, "pair")
    split = Split("triplet", seed=1, test_share=0.5)
    folder = write_release(
        database, study, "hp", parent / "hp", split, extras=Extras(layouts=("csv", "trl"))
    )
    database.close()
    return folder


@pytest.fixture
def release(exported: Path, tmp_path: Path) -> OnDisk:
    shutil.copytree(exported, tmp_path / "hp")
    return OnDisk(tmp_path / "hp")


def edit_csv(release: OnDisk) -> None:
    path = release.folder / "preferences.csv"
    lines = path.read_text().splitlines(keepends=True)
    assert ",2,3,2," in lines[2]  # score_1, score_2 and preferred
    lines[2] = lines[2].replace(",2,3,2,", ",1,3,2,")
    path.write_text("".join(lines))


def cut_csv(release: OnDisk) -> None:
    path = release.folder / "sets.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def leak_into_test(release: OnDisk) -> None:
    """A question of the training part in the test part's file."""
    train, test = (release.folder / f"preferences-{part}.parquet" for part in ("train", "test"))
    rows = pa.concat_tables([pq.read_table(test), pq.read_table(train).slice(0, 1)])
    pq.write_table(rows, test)


def reverse_choice(release: OnDisk) -> None:
    path = release.folder / "trl-train.parquet"
    table = pq.read_table(path)
    rows: list[Any] = table.to_pylist()
    rows[0]["chosen"], rows[0]["rejected"] = rows[0]["rejected"], rows[0]["chosen"]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def test_what_we_export_is_valid(exported: Path) -> None:
    verified = hsfiq("release", "verify", exported, "--json")
    assert verified.result["findings"] == []
    assert verified.result["notes"] == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (edit_csv, "preferences.csv, row 2, score_1: is '1', and '2' by the tables"),
        (cut_csv, "sets.csv, row "),
        (leak_into_test, "preferences-test.parquet, row "),
        (reverse_choice, "trl-train.parquet, row 1, chosen: is "),
    ],
)
def test_a_changed_file_names_the_row(
    release: OnDisk, change: Callable[[OnDisk], None], where: str
) -> None:
    change(release)
    release.agree()
    verified = hsfiq("release", "verify", release.folder)
    assert verified.code == 1
    assert where in verified.out
    assert "sha256" not in verified.out
