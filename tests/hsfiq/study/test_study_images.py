"""What a study's participants will see: missing and broken references and candidates."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import update

from hsfiq.db.engine import Database
from hsfiq.db.tables import Dataset, Triplet
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.studies import SMALL, draw, make_queries

CONFIG = """
[study]
name = "from-file"
title = "Which set fits?"
[design]
k = 2
questions_per_form = 2
[queries]
dataset = "small"
"""


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Path:
    """The image folder of eight queries whose references and candidates are the same 8 images."""
    make_queries(database)
    root = tmp_path / "images"
    root.mkdir()
    for number in range(8):
        Picture.new("RGB", (6, 8), "red").save(root / f"image-{number}.png")
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=str(root)))
        # Two images are references, the others only candidates.
        session.execute(update(Triplet).where(Triplet.id > 2).values(reference_id=1))
        session.execute(update(Triplet).where(Triplet.id == 2).values(reference_id=None))
    return root


def check(url: str, *options: str) -> CommandResult:
    return hsfiq("images", "check", "--study", "small", "--database", url, *options)


def test_faulty_images_are_counted_by_role(
    folder: Path, database: Database, database_url: str
) -> None:
    draw(database, list(range(1, 9)), SMALL)
    assert check(database_url).code == 0
    (folder / "image-0.png").unlink()
    (folder / "image-5.png").write_bytes((folder / "image-5.png").read_bytes()[:-30])
    done = check(database_url, "--json")
    assert done.code == 1
    result = done.result
    assert (result["images"], result["kinds"]) == (8, {"missing": 1, "truncated": 1})
    assert result["roles"]["reference"] == {"images": 1, "kinds": {"missing": 1}}
    assert result["roles"]["candidate"]["images"] == 8
    faulty = {image["image"]: image for image in result["faulty"]}
    assert faulty["image-0"]["roles"] == ["reference", "candidate"]
    assert faulty["image-5"]["roles"] == ["candidate"]
    assert result["pairs"] == 8
    assert result["pairs_touched"] == len(
        {query for image in faulty.values() for query in image["queries"]}
    )
    lines = check(database_url).out.splitlines()
    assert "6 of 8 can be shown, 1 missing, 1 truncated" in lines[0]
    assert "  references: 0 of 1 can be shown, 1 missing" in lines
    assert any(line.startswith("image-5: truncated") and "candidate of" in line for line in lines)


@on_sqlite
def test_creating_a_study_says_what_is_missing_and_goes_on(
    folder: Path, database: Database, database_url: str, tmp_path: Path
) -> None:
    config = tmp_path / "study.toml"
    config.write_text(CONFIG, encoding="utf-8")
    (folder / "image-5.png").unlink()
    done = hsfiq("study", "create", config, "--database", database_url)
    assert done.code == 0
    assert "1 of 8 images cannot be shown (0 of 1 references, 1 of 8 candidates)" in done.err
    assert "hsfiq images check --study from-file" in done.err


@on_sqlite
def test_without_an_image_folder_all_are_missing(
    folder: Path, database: Database, database_url: str
) -> None:
    draw(database, list(range(1, 9)), SMALL)
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=None))
    done = check(database_url)
    assert done.code == 1
    assert done.out.startswith("study small, no image folder is known: 0 of 8 can be shown")


@on_sqlite
@pytest.mark.parametrize(
    "words", [(), ("DIR", "--study", "small"), ("--study", "s", "--split", "x")]
)
def test_either_a_folder_or_a_study(words: tuple[str, ...], database_url: str) -> None:
    refused = hsfiq("images", "check", *words, "--database", database_url)
    assert refused.code == 2
    assert "--study" in refused.err
