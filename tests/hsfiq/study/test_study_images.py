"""What a study's participants will see: missing and broken references and candidates."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import select, update

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, ImageChange, Triplet
from tests.hsfiq.samples import CommandResult, hsfiq, on_sqlite
from tests.hsfiq.study.parts import row_counts
from tests.studies import NOW, SMALL, draw, make_queries

CONFIG = """
[study]
name = "small"
title = "Which set fits?"
[design]
k = 2
questions_per_form = 2
[queries]
dataset = "small"
"""


def create(url: str, folder: Path, *options: str, config: str = CONFIG) -> CommandResult:
    path = folder.parent / "study.toml"
    path.write_text(config, encoding="utf-8")
    return hsfiq("study", "create", path, *options, "--database", url)


def paint_green(path: Path) -> None:
    Picture.new("RGB", (6, 8), "green").save(path)


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


def broken_files(folder: Path) -> dict[str, str]:
    """Files of the study that are there but cannot be shown, each with a word of its fault."""
    (folder / "image-1.png").write_bytes((folder / "image-1.png").read_bytes()[:-30])
    (folder / "image-2.png").write_bytes(b"")
    (folder / "image-3.png").write_text("<html>404</html>")
    Picture.new("RGB", (1, 1)).save(folder / "image-4.png")
    faults = ("truncated", "zero bytes", "not a known image format", "single pixel")
    return {f"image-{number}.png": fault for number, fault in enumerate(faults, start=1)}


def test_a_study_with_broken_images_is_not_created(
    folder: Path, database: Database, database_url: str
) -> None:
    """It is created if images are missing, and the command says which."""
    broken, before = broken_files(folder), row_counts(database)
    (folder / "image-5.png").unlink()
    refused = create(database_url, folder)
    assert refused.code == 2
    *lines, last = refused.err.splitlines()
    for (name, fault), line in zip(broken.items(), lines, strict=True):
        assert f"{folder / name}: " in line
        assert fault in line
    assert "4 image files cannot be shown" in last
    assert "delete" in last
    assert row_counts(database) == before
    assert set(digests(database).values()) == {None}

    for name in broken:
        (folder / name).unlink()
    done = create(database_url, folder)
    assert done.code == 0
    assert "5 of 8 images cannot be shown (0 of 1 references, 5 of 8 candidates)" in done.err
    assert "hsfiq images check --study small" in done.err


@on_sqlite
def test_a_draft_whose_images_have_been_damaged_is_not_opened(
    folder: Path, database: Database, database_url: str
) -> None:
    assert create(database_url, folder, "--draft").code == 0
    whole = (folder / "image-1.png").read_bytes()
    broken = broken_files(folder)
    refused = hsfiq("study", "open", "--database", database_url)
    assert refused.code == 2
    assert "4 image files cannot be shown" in refused.err
    for name in broken:
        (folder / name).write_bytes(whole)
    assert hsfiq("study", "open", "--database", database_url).code == 0


@on_sqlite
def test_a_pipe_counts_as_a_missing_image(
    folder: Path, database: Database, database_url: str
) -> None:
    for number, made in enumerate((os.mkfifo, Path.mkdir)):
        path = folder / f"image-{number}.png"
        path.unlink()
        made(path)
    (folder / "image-2.png").unlink()
    (folder / "image-2.png").symlink_to("/dev/zero")
    done = create(database_url, folder)
    assert done.code == 0
    assert "3 of 8 images cannot be shown" in done.err
    assert check(database_url, "--json").result["kinds"] == {"missing": 3}


def test_a_study_is_not_extended_with_broken_images(
    folder: Path, database: Database, database_url: str
) -> None:
    with database.writing() as session:  # the image of each query is its own reference
        session.execute(update(Triplet).values(reference_id=Triplet.id))
    extend = ("study", "extend", "small", "--all-queries", "--database", database_url)
    assert create(database_url, folder, config=f"{CONFIG}sample = 2\n").code == 0
    before, shown = row_counts(database), digests(database)
    unknown = [folder / f"{name}.png" for name, digest in shown.items() if digest is None]
    assert unknown
    for path in unknown:
        path.write_bytes(b"")
    refused = hsfiq(*extend)
    assert (refused.code, "zero bytes" in refused.err) == (2, True)
    assert (row_counts(database), digests(database)) == (before, shown)
    for path in unknown:
        path.unlink()
    assert hsfiq(*extend).code == 0


@on_sqlite
def test_without_an_image_folder_all_are_missing(
    folder: Path, database: Database, database_url: str
) -> None:
    draw(database, list(range(1, 9)), SMALL)
    with database.writing() as session:
        session.execute(update(Dataset).values(image_root=None))
    done = check(database_url)
    assert done.code == 1
    assert done.out.startswith("study small, the image folder is unknown: 0 of 8 can be shown")


@on_sqlite
def test_either_a_folder_or_a_study(database_url: str, folder: Path) -> None:
    """Digests are accepted for studies only."""
    both = hsfiq("images", "check", folder, "--study", "small", "--database", database_url)
    assert (both.code, "--study" in both.err) == (2, True)
    split = hsfiq("images", "check", "--study", "s", "--split", "x", "--database", database_url)
    assert (split.code, "--split" in split.err) == (2, True)
    refused = hsfiq("images", "check", folder, "--accept", "--database", database_url)
    assert (refused.code, "--accept" in refused.err) == (2, True)


def digests(database: Database) -> dict[str, str | None]:
    with database.reading() as session:
        return dict(session.execute(select(Image.name, Image.sha256)).all())


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_creating_a_study_records_the_digests_of_the_files_that_are_there(
    folder: Path, database: Database, database_url: str
) -> None:
    (folder / "image-5.png").unlink()
    assert create(database_url, folder).code == 0
    expected = {f"image-{n}": digest_of(folder / f"image-{n}.png") for n in range(8) if n != 5}
    assert digests(database) == expected | {"image-5": None}
    paint_green(folder / "image-5.png")
    done = check(database_url)
    assert done.code == 0
    assert f"image-5: new ({folder / 'image-5.png'}: no digest is recorded)" in done.out
    assert digests(database)["image-5"] is None
    # An earlier digest is kept when another study is created.
    paint_green(folder / "image-3.png")
    done = create(database_url, folder, config=CONFIG.replace('name = "small"', 'name = "second"'))
    assert "1 of 8 images cannot be shown" in done.err
    assert digests(database)["image-3"] == expected["image-3"]


def test_a_changed_file_is_named_and_accepted_only_on_purpose(
    folder: Path, database: Database, database_url: str
) -> None:
    """It gets a new address; one that cannot be shown is not accepted."""

    def tokens() -> dict[str, str]:
        with database.reading() as session:
            return dict(session.execute(select(Image.name, Image.token)).all())

    create(database_url, folder)
    before, old = digests(database), tokens()
    with database.writing() as session:
        session.add(ImageChange(image_id=4, found_at=NOW))
    paint_green(folder / "image-3.png")
    (folder / "image-5.png").unlink()
    done = check(database_url, "--json")
    assert (done.code, done.result["kinds"]) == (1, {"changed": 1, "missing": 1})
    (changed,) = [image for image in done.result["faulty"] if image["kind"] == "changed"]
    assert changed["file"] == str(folder / "image-3.png")
    assert changed["sha256"] == digest_of(folder / "image-3.png")
    assert any(line.startswith("image-3: changed") for line in check(database_url).out.splitlines())
    assert digests(database) == before

    (folder / "image-4.png").write_bytes(b"broken")
    accepted = check(database_url, "--accept")
    assert accepted.code == 1, "an image is missing, and one is broken"
    assert "1 changed and 0 new images were accepted" in accepted.out
    assert digests(database) == before | {"image-3": changed["sha256"]}
    new = tokens()
    assert {name for name in old if new[name] != old[name]} == {"image-3"}
    with database.reading() as session:
        assert session.scalars(select(ImageChange)).all() == []
    kinds = check(database_url, "--json").result["kinds"]
    assert kinds == {"missing": 1, "undecodable": 1}
