"""Own data into the database: names of images, repeated imports, changed rows, runs."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import func, select

from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, Triplet
from hsfiq.images.folder import ImageFolder, OwnImages, UnknownName
from tests.hsfiq.samples import CommandResult, dump, hsfiq, on_sqlite

FILES = ("red.png", "cars/1.jpg", "cars/2.jpg", "ships/1.jpg", "cars/blue car.PNG", "a.b.webp")
LONG = "q" * 200
QUERIES = (
    {"query_id": "text alone", "text": "a red car", "target": "cars/1.jpg", "category": "car"},
    {"query_id": "7/image~", "reference": "red"},
    {"query_id": "both#3", "text": "is  blue", "reference": "blue car", "split": "test"},
    {"query_id": LONG, "captions": ["is red", "is a ship"], "reference": "./ships/1"},
)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Picture.new("RGB", (6, 8), "red").save(path)
    return tmp_path / "photos"


def import_rows(photos: Path, url: str, *rows: object, dataset: str = "shop") -> CommandResult:
    path = photos.parent / "queries.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    options = ("--images", photos, "--dataset", dataset, "--database", url)
    return hsfiq("import", "queries", path, *options)


def import_run(photos: Path, url: str, content: str) -> CommandResult:
    path = photos.parent / "run.csv"
    path.write_text(content, encoding="utf-8")
    return hsfiq("import", "runs", path, "--dataset", "shop", "--database", url)


def counts(database: Database) -> tuple[int, ...]:
    with database.reading() as session:
        return tuple(
            session.scalar(select(func.count()).select_from(table)) or 0
            for table in (Dataset, Image, Triplet, Query, RankedList)
        )


def test_queries_are_stored_once(photos: Path, database: Database, database_url: str) -> None:
    done = import_rows(photos, database_url, *QUERIES)
    assert (done.code, done.out) == (0, "dataset shop: 4 queries added\n")
    with database.reading() as session:
        stored = session.scalars(select(Query).order_by(Query.id)).all()
        rows = [
            (
                query.triplet.external_id,
                query.text,
                query.triplet.captions,
                query.triplet.reference and query.triplet.reference.name,
                query.triplet.target and query.triplet.target.name,
                query.triplet.category,
                query.triplet.split,
            )
            for query in stored
        ]
    assert rows == [
        ("text alone", "a red car", ["a red car"], None, "cars/1.jpg", "car", None),
        ("7/image~", "", [], "red.png", None, "", None),
        ("both#3", "is  blue", ["is  blue"], "cars/blue car.PNG", None, "", "test"),
        (LONG, "is red and is a ship", ["is red", "is a ship"], "ships/1.jpg", None, "", None),
    ]
    before = counts(database)
    again = import_rows(photos, database_url, *QUERIES)
    assert (again.code, again.out) == (0, "dataset shop: nothing new, all 4 queries existed\n")
    more = import_rows(photos, database_url, *QUERIES, {"query_id": "new", "text": "a ship"})
    assert more.out == "dataset shop: 1 query added, 4 existed\n"
    assert counts(database) == (1, before[1], 5, 5, 0)


@on_sqlite
def test_wrong_rows_change_nothing(photos: Path, database: Database, database_url: str) -> None:
    assert import_rows(photos, database_url, *QUERIES).code == 0
    path = Path(database_url.removeprefix("sqlite:///"))
    before = dump(path)
    wrong = import_rows(
        photos,
        database_url,
        {"query_id": "new", "text": "fine"},
        {"query_id": "text alone", "text": "another text", "target": "cars/2", "category": "car"},
        {"query_id": "x", "reference": "1"},
        {"query_id": "y", "reference": "RED.png", "target": "nowhere"},
        {"query_id": "z", "reference": "../photos/red.png"},
    )
    assert wrong.code == 2
    parts = (
        "line 2: query 'text alone' was imported before with another target and text and captions",
        "line 3: reference: image '1' can be cars/1.jpg, ships/1.jpg; write its path",
        "line 4: reference: no file below " + str(photos) + " is image 'RED.png'; there is red.png",
        "line 5: reference: no file below",
    )
    lines = wrong.err.splitlines()
    assert len(lines) == len(parts)
    for line, part in zip(lines, parts, strict=True):
        assert part in line
    assert dump(path) == before


@on_sqlite
@pytest.mark.parametrize(
    ("dataset", "part"), [("cirr", "use hsfiq import cirr"), ("a b", "cannot be the name")]
)
def test_names_that_no_own_dataset_has(
    photos: Path, database_url: str, dataset: str, part: str
) -> None:
    refused = import_rows(photos, database_url, *QUERIES, dataset=dataset)
    assert refused.code == 2
    assert part in refused.err


def test_runs_name_queries_and_images_as_the_queries_do(
    photos: Path, database: Database, database_url: str
) -> None:
    import_rows(photos, database_url, *QUERIES)
    content = "query_id;system;rank;image_id\n" + "".join(
        f"{query};{system};{rank};{image}\n"
        for query in ("text alone", "7/image~", "both#3")
        for system in ("ours", "theirs")
        for rank, image in ((2, "cars/2"), (10, "a.b"), (1, "red.png"))
    )
    done = import_run(photos, database_url, content)
    assert (done.code, done.out) == (0, "dataset shop: 6 ranked lists added\n")
    assert import_run(photos, database_url, content).out.endswith("all 6 ranked lists existed\n")
    with database.reading() as session:
        names = dict(session.execute(select(Image.id, Image.name)).all())
        lists = session.scalars(select(RankedList)).all()
    assert {tuple(names[key] for key in ranked.image_ids) for ranked in lists} == {
        ("red.png", "cars/2.jpg", "a.b.webp")
    }


@on_sqlite
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("text alone,ours,1,nowhere", "line 2: no file below"),
        ("unknown,ours,1,red", "line 2: query 'unknown' is unknown"),
        ("text alone,ours,first,red", "line 2: rank 'first' is not a whole number"),
        ("text alone,ours,1,red\ntext alone,ours,1,a.b", "line 3: query text alone has rank 1"),
        ("text alone,ours,1,red\ntext alone,ours,2,red.png", "holds image red.png twice"),
        ("text alone,,1,red", "line 2: the run does not name its system"),
        ("text alone,ours,,red", "line 2: has no rank"),
    ],
)
def test_wrong_runs(photos: Path, database_url: str, line: str, part: str) -> None:
    import_rows(photos, database_url, *QUERIES)
    refused = import_run(photos, database_url, f"query_id,system,rank,image_id\n{line}\n")
    assert refused.code == 2
    assert part in refused.err


@on_sqlite
def test_a_query_cannot_take_the_id_of_a_further_text(photos: Path, database_url: str) -> None:
    import_rows(photos, database_url, {"query_id": "a", "captions": ["red", "big"]})
    run = import_run(photos, database_url, "query_id,system,rank,image_id\na~,ours,1,red\n")
    assert run.code == 0  # the captions in the other order
    refused = import_rows(photos, database_url, {"query_id": "a~", "text": "blue"})
    assert refused.code == 2
    assert "'a~' is a further text of query 'a'" in refused.err


# ------------------------------------------------------------------------------- names of images


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("red.png", "red.png"), ("red", "red.png"), ("cars/1.jpg", "cars/1.jpg"),
        ("ships/1", "ships/1.jpg"), ("2", "cars/2.jpg"), ("2.jpg", "cars/2.jpg"),
        ("cars\\2.jpg", "cars/2.jpg"), ("./red", "red.png"), ("a.b", "a.b.webp"),
        ("blue car", "cars/blue car.PNG"),
    ],
)  # fmt: skip
def test_ways_to_write_a_name(photos: Path, name: str, image: str) -> None:
    assert OwnImages(photos).id_of(name) == image
    assert ImageFolder(photos).find(image) == photos / image


@pytest.mark.parametrize("name", ["1", "1.jpg", "nowhere", "", "/red.png", "photos/red.png", "ed"])
def test_names_of_no_image_or_of_several(photos: Path, name: str) -> None:
    with pytest.raises(UnknownName):
        OwnImages(photos).id_of(name)


@pytest.mark.parametrize("name", ["phone.HEIC", "cars/phone", "phone"])
def test_other_formats_are_named(photos: Path, name: str) -> None:
    (photos / "cars" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(UnknownName, match=r"phone\.HEIC: format not supported") as refused:
        OwnImages(photos).id_of(name)
    assert refused.value.remedy == "convert it to JPEG or PNG"


def test_an_image_is_a_regular_file_or_a_link_to_one(photos: Path) -> None:
    os.mkfifo(photos / "pipe.png")
    (photos / "folder.png").mkdir()
    (photos / "device.png").symlink_to("/dev/zero")
    (photos / "link.png").symlink_to(photos / "red.png")
    images = OwnImages(photos)
    assert images.id_of("link") == "link.png"
    for name in ("pipe.png", "folder.png", "device"):
        with pytest.raises(UnknownName, match="is not a regular file"):
            images.id_of(name)


def test_a_file_in_the_folder_itself_is_named_by_its_name_alone(photos: Path) -> None:
    Picture.new("RGB", (6, 8)).save(photos / "1.jpg")
    assert OwnImages(photos).id_of("1.jpg") == "1.jpg"
    assert OwnImages(photos).id_of("1") == "1.jpg"
    Picture.new("RGB", (6, 8)).save(photos / "1.png")
    with pytest.raises(UnknownName, match=r"can be 1\.jpg, 1\.png"):
        OwnImages(photos).id_of("1")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_and_korean_letters_in_either_form(photos: Path, form: str) -> None:
    name = "café 한국.png"
    file = photos / unicodedata.normalize(form, name)  # type: ignore[arg-type]
    Picture.new("RGB", (6, 8)).save(file)
    for written in ("NFC", "NFD"):
        image = OwnImages(photos).id_of(unicodedata.normalize(written, name))  # type: ignore[arg-type]
        assert ImageFolder(photos).find(image) == file
