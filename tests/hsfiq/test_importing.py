"""Datasets and own data into the database: names of images, repeats, changed rows, runs."""

from __future__ import annotations

import json
import os
import shutil
import unicodedata
from pathlib import Path

import pytest
from PIL import Image as Picture
from sqlalchemy import func, select

from hsfiq.collect.studies import list_studies
from hsfiq.db.engine import Database
from hsfiq.db.source_tables import Dataset, Image, Query, RankedList, Triplet
from hsfiq.db.tables import Form, Pair, Question, RetrievedSet
from hsfiq.errors import UnreadableInput
from hsfiq.images.folder import ImageFolder, OwnImages, UnknownName
from hsfiq.importing import Imported, dataset_named, import_published, import_source
from hsfiq.readers import datasets, hpfiq
from hsfiq.records import Source
from hsfiq.records import Triplet as TripletRecord
from tests.hsfiq.samples import (
    CIRR,
    FASHIONIQ,
    HPFIQ,
    CommandResult,
    dump,
    hsfiq,
    import_fashioniq,
    import_hpfiq,
    imported,
    on_sqlite,
    published,
    release_of,
    rows,
)


def count(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_published_file_is_a_finished_study(database: Database) -> None:
    """Importing it again adds nothing."""
    import_hpfiq(database)
    with database.reading() as session:
        (study,) = list_studies(session)
        assert (study.name, study.status, study.origin) == ("hpfiq", "closed", "imported")
        assert (study.k, study.forms_per_participant) == (5, 2)
    # user_2 meets a pair of user_1 with its sides swapped
    tables = (Form, Question, Pair, RetrievedSet)
    assert [count(database, table) for table in tables] == [4, 5, 4, 7]
    before = release_of(database).files
    with database.writing() as session:
        assert import_published(session, "hpfiq", hpfiq.read(HPFIQ)) == Imported(0, 5)
    assert release_of(database).files == before


def test_other_answers_under_the_same_name_are_refused(database: Database, tmp_path: Path) -> None:
    import_hpfiq(database)
    value = published()
    value["user_1"]["question_set_1"]["preferred set"][0] = "2"
    path = tmp_path / "other.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(UnreadableInput, match="study hpfiq: already exists with other answers"):
        import_hpfiq(database, path)
    import_hpfiq(database, path, "second")
    with database.reading() as session:
        assert [study.name for study in list_studies(session)] == ["hpfiq", "second"]


def test_fashioniq_adopts_the_triplets_of_an_imported_study(database: Database) -> None:
    import_hpfiq(database)
    import_fashioniq(database)
    queries = rows(release_of(database), "queries")
    assert [row["query_id"].removeprefix("shirt.val.") for row in queries] == [
        *("0", "1~", "0~", "1#1")
    ]
    assert (queries[0]["captions"], queries[0]["split"]) == (["is red", "has no collar"], "val")
    assert count(database, Triplet) == 5


def test_a_repeated_triplet_is_adopted_once(database: Database) -> None:
    import_hpfiq(database)
    twins = tuple(
        TripletRecord(f"shirt.val.{n}", "ref_a", "tgt_a", ("is red", f"has {n}"), "shirt", "val")
        for n in range(2)
    )
    with database.writing() as session:
        dataset = dataset_named(session, "fashioniq")
        source = Source(Path("twins"), "shirt.val", (), twins)
        assert import_source(session, dataset, source) == Imported(2, 0)
        assert import_source(session, dataset, source) == Imported(0, 2)
    ids = {row["triplet_id"] for row in rows(release_of(database), "queries")}
    assert ids == {"shirt.val.0", "shirt.hpfiq.ref_b.tgt_b"}


@on_sqlite
def test_cirr(database: Database) -> None:
    with database.writing() as session:
        dataset = dataset_named(session, "cirr")
        imported = [import_source(session, dataset, source) for source in datasets.read_cirr(CIRR)]
        assert imported == [Imported(1, 0), Imported(2, 0)]
        triplets = {each.external_id: each for each in session.scalars(select(Triplet))}
        assert set(triplets) == {"3", "7", "12"}
        assert (triplets["3"].category, triplets["3"].target_id) == ("", None)


@on_sqlite
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("captions/cap.shirt.val.json", "has stripes", "has dots", "triplet shirt.val.2 was"),
        ("captions/cap.shirt.val.json", '"s2"', '"s3"', "with another target_id"),
        ("image_splits/split.shirt.val.json", '"s9"', '"s10"', "other images (13 then, 13 now)"),
    ],
)
def test_changed_content_is_refused(
    database: Database, file: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    import_fashioniq(database)
    shutil.copytree(FASHIONIQ, tmp_path / "fiq")
    path = tmp_path / "fiq" / file
    path.write_text(path.read_text().replace(old, new, 1))
    before = count(database, Image)
    with pytest.raises(UnreadableInput) as error:
        import_fashioniq(database, tmp_path / "fiq")
    assert message in str(error.value)
    assert "cap.shirt.val.json" in str(error.value)
    assert count(database, Image) == before


# ----------------------------------------------------------------------------------- commands


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HSFIQ_DATABASE_URL", raising=False)


def test_the_commands_report_added_and_existing_rows(tmp_path: Path) -> None:
    shutil.copytree(FASHIONIQ, "fiq")
    shirts = ("import", "fashioniq", "fiq", "--category", "shirt")
    first = hsfiq(*shirts)
    assert first.out == "shirt.test: 1 triplet added\nshirt.val: 3 triplets added\n"
    assert "15 of 15 images are missing" in first.err
    assert hsfiq("import", "hpfiq", HPFIQ).out == "study hpfiq: 5 questions added\n"
    before = imported(tmp_path / "hsfiq.db")
    assert "shirt.val: unchanged, all 3 triplets existed" in hsfiq(*shirts).out
    result = hsfiq("import", "hpfiq", HPFIQ, "--json").result
    assert result == {"study hpfiq": {"added": 0, "already": 5, "replaced": 0}}
    assert imported(tmp_path / "hsfiq.db") == before
    Path("fiq/images/shirt").mkdir(parents=True)
    Path("fiq/images/shirt/s1.PNG").touch()
    detected = hsfiq(*shirts, "--split", "val")
    assert detected.err == "12 of 13 images are missing below fiq/images\n"


@pytest.mark.shared
def test_the_real_validation_files(shared: Path) -> None:
    for name in ("fashioniq", "cirr"):
        command = hsfiq("import", name, shared / "data" / name, "--json")
        assert command.code == 0
        counts = {corpus: count["added"] for corpus, count in command.result.items()}
        assert sum(counts.values()) == {"fashioniq": 6016, "cirr": 4181 + 4148}[name]
        assert "images are missing" in command.err


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


def triplets(database: Database) -> list[tuple[str | None, ...]]:
    with database.reading() as session:
        return [
            (
                *(each.dataset.name, each.external_id, each.split),
                *(image and image.name for image in (each.reference, each.target)),
            )
            for each in session.scalars(select(Triplet).order_by(Triplet.id))
        ]


def images(database: Database, dataset: str) -> set[str]:
    with database.reading() as session:
        rows = select(Image.name).join(Image.dataset).where(Dataset.name == dataset)
        return set(session.scalars(rows))


CIRCO = ("--dataset", "circo", "--system", "S")


def test_each_split_is_a_dataset(folder: Path, database: Database, database_url: str) -> None:
    done = hsfiq("import", "circo", folder, "--database", database_url)
    assert done.code == 0, done.err
    assert triplets(database) == [
        ("circo", "0", "val", "4", "7"),
        ("circo-test", "0", "test", "5", None),
    ]
    assert images(database, "circo") == {"4", "7", "9"}
    again = hsfiq("import", "circo", folder, "--split", "val", "--database", database_url)
    assert again.out == "val: unchanged, 1 triplet existed\n"


@on_sqlite
@pytest.mark.parametrize("is_listed", [False, True])
def test_runs_have_ids_of_coco_and_of_the_list_of_images_if_there_is_one(
    folder: Path, database: Database, database_url: str, is_listed: bool
) -> None:
    if is_listed:
        write(folder / INDEX, {"images": [{"id": n} for n in (4, 5, 7, 9)]})
    hsfiq("import", "circo", folder, "--database", database_url)
    options = (*CIRCO, "--database", database_url)
    run = write(folder / "run.json", {"0": ["000000000007", 4, 581929]})
    done = hsfiq("import", "runs", run, *options)
    if is_listed:
        assert (done.code, "'581929' is not in dataset circo" in done.err) == (2, True)
        return
    assert done.out == "dataset circo: 1 ranked list added\n"
    assert images(database, "circo") == {"4", "7", "9", "581929"}
    for ids, part in ((["dog"], "'dog' is not a COCO image id"), ([7, "07"], "7 twice")):
        refused = hsfiq("import", "runs", write(folder / "wrong.json", {"0": ids}), *options)
        assert (refused.code, part in refused.err) == (2, True)


@on_sqlite
def test_splits_and_folders(folder: Path, database_url: str) -> None:
    (folder / "empty").mkdir()
    for words, part in (
        (("annotations", "--split", "train"), "--split: 'train' is not a split of CIRCO"),
        (("empty",), "neither val.json nor test.json"),
        (("annotations", "--split", "test", "--split", "val"), ""),
    ):
        done = hsfiq("import", "circo", *words, "--database", database_url)
        assert (done.code, part in done.err) == (2 if part else 0, True)


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


def test_queries_are_stored_once(photos: Path, database: Database, database_url: str) -> None:
    done = import_rows(photos, database_url, *QUERIES)
    assert (done.code, done.out) == (0, "dataset shop: 4 queries added\n")
    with database.reading() as session:
        texts = {each.triplet.external_id: each.text for each in session.scalars(select(Query))}
        captions = {each.external_id: each.captions for each in session.scalars(select(Triplet))}
    assert triplets(database) == [
        ("shop", "text alone", None, None, "cars/1.jpg"),
        ("shop", "7/image~", None, "red.png", None),
        ("shop", "both#3", "test", "cars/blue car.PNG", None),
        ("shop", LONG, None, "ships/1.jpg", None),
    ]
    assert list(texts.values()) == ["a red car", "", "is  blue", "is red and is a ship"]
    assert list(captions.values()) == [["a red car"], [], ["is  blue"], ["is red", "is a ship"]]
    n_images = count(database, Image)
    again = import_rows(photos, database_url, *QUERIES)
    assert (again.code, again.out) == (0, "dataset shop: unchanged, all 4 queries existed\n")
    more = import_rows(photos, database_url, *QUERIES, {"query_id": "new", "text": "a ship"})
    assert more.out == "dataset shop: 1 query added, 4 existed\n"
    tables = (Dataset, Image, Triplet, Query, RankedList)
    assert [count(database, table) for table in tables] == [1, n_images, 5, 5, 0]


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
    for line, part in zip(
        wrong.err.splitlines(),
        (
            "line 2: query 'text alone' was imported before with another target and text and",
            "line 3: reference: image '1' can be cars/1.jpg, ships/1.jpg; write its path",
            f"line 4: reference: no file below {photos} is image 'RED.png'; there is red.png",
            "line 4: target: no file below",
            "line 5: reference: no file below",
        ),
        strict=True,
    ):
        assert part in line
    assert dump(path) == before
    for dataset, part in (("cirr", "use hsfiq import cirr"), ("a b", "cannot be the name")):
        refused = import_rows(photos, database_url, *QUERIES, dataset=dataset)
        assert (refused.code, part in refused.err) == (2, True)


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


def test_wrong_rows_create_no_database(photos: Path) -> None:
    url = f"sqlite:///{photos.parent / 'new.db'}"
    wrong = import_rows(photos, url, {"query_id": "x", "reference": "nowhere"}, {"text": "red"})
    assert (wrong.code, wrong.err.count("\n")) == (2, 2)
    assert not (photos.parent / "new.db").exists()


@on_sqlite
def test_the_only_dataset_is_the_default(photos: Path, database_url: str) -> None:
    run = photos.parent / "run.csv"
    run.write_text("query_id,system,rank,image_id\ntext alone,ours,1,red\n", encoding="utf-8")
    command = ("import", "runs", run, "--database", database_url)
    import_rows(photos, database_url, *QUERIES)
    assert hsfiq(*command).out == "dataset shop: 1 ranked list added\n"
    import_rows(photos, database_url, *QUERIES, dataset="another")
    assert hsfiq(*command).err == (
        "hsfiq: --dataset: there are 2 datasets; name one of another, shop\n"
    )


@on_sqlite
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("text alone,ours,1,nowhere", "line 2: no file below"),
        ("unknown,ours,1,red", "line 2: query 'unknown' is unknown"),
        ("text alone,ours,first,red", "line 2: rank 'first' is not a whole number"),
        ("text alone,ours,1,red\ntext alone,ours,1,a.b", "line 3: query text alone has rank 1"),
        ("text alone,ours,1,red\ntext alone,ours,2,red.png", "contains image red.png twice"),
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


NAMES = {
    "red.png": "red.png", "red": "red.png", "cars/1.jpg": "cars/1.jpg", "ships/1": "ships/1.jpg",
    "2": "cars/2.jpg", "2.jpg": "cars/2.jpg", "cars\\2.jpg": "cars/2.jpg", "./red": "red.png",
    "a.b": "a.b.webp", "blue car": "cars/blue car.PNG",
}  # fmt: skip
"""Ways to write names of images."""


def test_ways_to_write_a_name(photos: Path) -> None:
    for name, image in NAMES.items():
        assert OwnImages(ImageFolder(photos)).id_of(name) == image
        assert ImageFolder(photos).find(image) == photos / image
    for name in ("1", "1.jpg", "nowhere", "", "/red.png", "photos/red.png", "ed"):
        with pytest.raises(UnknownName):
            OwnImages(ImageFolder(photos)).id_of(name)


def test_other_formats_are_named(photos: Path) -> None:
    (photos / "cars" / "phone.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    for name in ("phone.HEIC", "cars/phone", "phone"):
        with pytest.raises(UnknownName, match=r"phone\.HEIC: format not supported") as refused:
            OwnImages(ImageFolder(photos)).id_of(name)
        assert refused.value.remedy == "convert it to JPEG or PNG"


def test_an_image_is_a_regular_file_or_a_link_to_one(photos: Path) -> None:
    os.mkfifo(photos / "pipe.png")
    (photos / "folder.png").mkdir()
    (photos / "device.png").symlink_to("/dev/zero")
    (photos / "link.png").symlink_to(photos / "red.png")
    images = OwnImages(ImageFolder(photos))
    assert images.id_of("link") == "link.png"
    for name in ("pipe.png", "folder.png", "device"):
        with pytest.raises(UnknownName, match="is not a regular file"):
            images.id_of(name)


def test_a_file_in_the_folder_itself_is_named_by_its_name_alone(photos: Path) -> None:
    Picture.new("RGB", (6, 8)).save(photos / "1.jpg")
    assert OwnImages(ImageFolder(photos)).id_of("1.jpg") == "1.jpg"
    assert OwnImages(ImageFolder(photos)).id_of("1") == "1.jpg"
    Picture.new("RGB", (6, 8)).save(photos / "1.png")
    with pytest.raises(UnknownName, match=r"can be 1\.jpg, 1\.png"):
        OwnImages(ImageFolder(photos)).id_of("1")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_and_korean_letters_in_either_form(photos: Path, form: str) -> None:
    name = "café 한국.png"
    file = photos / unicodedata.normalize(form, name)  # type: ignore[arg-type]
    Picture.new("RGB", (6, 8)).save(file)
    for written in ("NFC", "NFD"):
        image = OwnImages(ImageFolder(photos)).id_of(unicodedata.normalize(written, name))  # type: ignore[arg-type]
        assert ImageFolder(photos).find(image) == file
