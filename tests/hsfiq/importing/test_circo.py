"""CIRCO into the database: both splits, with and without the list of COCO's images, and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, RankedList, Triplet
from tests.hsfiq.samples import hsfiq, on_sqlite

QUERY = {"reference_img_id": 4, "relative_caption": "is red", "shared_concept": "dog", "id": 0}
VAL = QUERY | {"target_img_id": 7, "gt_img_ids": [9, 7], "semantic_aspects": []}
INDEX = "COCO2017_unlabeled/annotations/image_info_unlabeled2017.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "annotations/val.json", [VAL])
    write(tmp_path / "annotations/test.json", [QUERY | {"reference_img_id": 5}])
    return tmp_path


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def triplets(database: Database) -> list[tuple[str, str, str | None, str | None, str | None]]:
    with database.reading() as session:
        return [
            (
                triplet.dataset.name,
                triplet.external_id,
                triplet.split,
                triplet.reference.name if triplet.reference else None,
                triplet.target.name if triplet.target else None,
            )
            for triplet in session.scalars(select(Triplet).order_by(Triplet.id))
        ]


def images(database: Database, dataset: str) -> set[str]:
    with database.reading() as session:
        rows = select(Image.name).join(Image.dataset).where(Dataset.name == dataset)
        return set(session.scalars(rows))


def test_each_split_is_a_dataset(folder: Path, database: Database, database_url: str) -> None:
    done = hsfiq("import", "circo", folder, "--database", database_url)
    assert done.code == 0, done.err
    assert triplets(database) == [
        ("circo", "0", "val", "4", "7"),
        ("circo-test", "0", "test", "5", None),
    ]
    assert images(database, "circo") == {"4", "7", "9"}
    again = hsfiq("import", "circo", folder, "--split", "val", "--database", database_url)
    assert again.out == "val: nothing new, 1 triplet existed\n"


@on_sqlite
def test_runs_with_padded_ids_and_without_a_list_of_images(
    folder: Path, database: Database, database_url: str
) -> None:
    hsfiq("import", "circo", folder, "--database", database_url)
    options = ("--dataset", "circo", "--system", "S", "--database", database_url)
    run = write(folder / "run.json", {"0": ["000000000007", 4, 581929]})
    assert hsfiq("import", "runs", run, *options).out == "dataset circo: 1 ranked list added\n"
    assert images(database, "circo") == {"4", "7", "9", "581929"}
    for wrong, part in (
        ({"0": ["dog"]}, "'dog' is not a COCO image id"),
        ({"0": [7, "07"]}, "7 twice"),
    ):
        refused = hsfiq("import", "runs", write(folder / "wrong.json", wrong), *options)
        assert refused.code == 2
        assert part in refused.err


@on_sqlite
def test_with_the_list_of_images_other_ids_are_refused(
    folder: Path, database: Database, database_url: str
) -> None:
    write(folder / INDEX, {"images": [{"id": n} for n in (4, 5, 7, 9)]})
    hsfiq("import", "circo", folder, "--database", database_url)
    run = write(folder / "run.json", {"0": [7, 8]})
    options = ("--dataset", "circo", "--system", "S", "--database", database_url)
    refused = hsfiq("import", "runs", run, *options)
    assert refused.code == 2
    assert "image '8' is not in dataset circo" in refused.err


@on_sqlite
@pytest.mark.parametrize(
    ("place", "options", "part"),
    [
        ("annotations", ("--split", "train"), "--split: 'train' is not a split of CIRCO"),
        ("empty", (), "neither val.json nor test.json here"),
        ("annotations", ("--split", "test", "--split", "val"), ""),
    ],
)
def test_splits_and_folders(
    folder: Path, database_url: str, place: str, options: tuple[str, ...], part: str
) -> None:
    (folder / "empty").mkdir()
    done = hsfiq("import", "circo", folder / place, *options, "--database", database_url)
    assert done.code == (2 if part else 0)
    assert part in done.err


@pytest.mark.shared
@on_sqlite
def test_the_published_file_and_its_submission(
    shared: Path, database: Database, database_url: str
) -> None:
    folder = shared / "data" / "circo"
    assert hsfiq("import", "circo", folder, "--database", database_url).code == 0
    assert len(triplets(database)) == 220
    options = ("--dataset", "circo", "--system", "baseline", "--database", database_url)
    done = hsfiq("import", "runs", folder / "submission_val.json", *options)
    assert done.code == 0, done.err
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(RankedList)) == 220
