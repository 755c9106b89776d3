"""The layouts of a release, and what other programs read of it: everybody gets the same numbers.

One release has everything: a split, image files, all layouts.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture
from sqlalchemy import select

from hsfiq.db.engine import Database, added
from hsfiq.db.search_tables import SearchList
from hsfiq.db.source_tables import Dataset, Image
from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.layouts.csv_files import cell
from hsfiq.releases.layouts.layouts import (
    LAYOUTS,
    Extras,
    Layout,
    require_extras,
    write_layouts,
)
from hsfiq.releases.splits import Split
from hsfiq.study.publication import Publication
from tests.hsfiq.releases.small_releases import only_study, small_study_at, write_release
from tests.hsfiq.samples import hsfiq

PUBLICATION = Publication(
    licence="CC-BY-4.0",
    authors=("Ada Lovelace", "Kim"),
    contact="ada@example.org",
    url="https://example.org/shops",
    date="2026-11-23",
)
ABSENT = "image-7"
EVERYTHING = Extras(layouts=LAYOUTS, images=True, publication=PUBLICATION)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Five participants' answers about images, of which one file is absent."""
    folder = tmp_path_factory.mktemp("database")
    database, _ = small_study_at(folder / "it.db", "pair")
    with database.writing() as session:
        session.scalars(select(Dataset)).one().image_root = str(folder)
        names = session.scalars(select(Image.name)).all()
    for number, name in enumerate(sorted(names)):
        if name != ABSENT:
            Picture.new("RGB", (8, 4 + number), (number, 0, 0)).save(folder / f"{name}.png")
    yield database
    database.close()


def export(database: Database, folder: Path, extras: Extras, kind: str = "hp") -> Path:
    split = Split("both", seed=1, test_share=0.5) if extras.layouts else None
    return write_release(database, only_study(database), kind, folder, split, extras=extras)


@pytest.fixture(scope="module")
def release(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    os.environ.setdefault("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))
    return export(database, tmp_path_factory.mktemp("releases") / "all", EVERYTHING)


@pytest.fixture(scope="module")
def numbers(release: Path) -> tuple[int, int, int]:
    """The rows of `preferences`, the sum of the scores of set 1, and how often it is preferred."""
    table = pq.read_table(release / "preferences.parquet").to_pydict()
    return len(table["score_1"]), sum(table["score_1"]), table["preferred"].count(1)


def manifest_of(release: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return manifest


# ------------------------------------------------------------------------------------ other readers


def test_datasets_reads_every_configuration(
    release: Path, numbers: tuple[int, int, int], need: Any, tmp_path: Path
) -> None:
    need("datasets")
    import datasets

    names = datasets.get_dataset_config_names(str(release))
    assert {"preferences", "sets", "images", "preferences-by-part", "trl"} <= set(names)
    loaded = datasets.load_dataset(
        str(release), "preferences", split="train", cache_dir=str(tmp_path)
    )
    assert (len(loaded), sum(loaded["score_1"]), list(loaded["preferred"]).count(1)) == numbers
    parts = datasets.load_dataset(str(release), "preferences-by-part", cache_dir=str(tmp_path))
    counts = manifest_of(release)["split"]["n"]
    assert {name: len(part) for name, part in parts.items()} == {
        name: n for name, n in counts.items() if n
    }
    pictures = datasets.load_dataset(str(release), "images", split="train", cache_dir=str(tmp_path))
    by_id = {row["image_id"]: row for row in pictures}
    assert by_id[ABSENT]["image"] is None
    assert by_id["image-3"]["image"].size == (8, 7)


def test_pandas_and_duckdb_read_the_same_numbers(
    release: Path, numbers: tuple[int, int, int], need: Any
) -> None:
    need("duckdb")
    import duckdb
    import pandas as pd

    frame = pd.read_parquet(release / "preferences.parquet")
    assert (
        len(frame), frame["score_1"].sum(), (frame["preferred"] == 1).sum()
    ) == numbers  # fmt: skip
    for suffix in ("parquet", "jsonl", "csv"):
        path = release / f"preferences.{suffix}"
        reader = {"parquet": "read_parquet", "jsonl": "read_json", "csv": "read_csv"}[suffix]
        query = (
            "select count(*), sum(score_1), count(*) filter (where preferred = 1) "
            f"from {reader}('{path}')"
        )
        assert duckdb.sql(query).fetchall() == [numbers]


def test_nanoarrow_reads_the_same_numbers(
    release: Path, numbers: tuple[int, int, int], need: Any
) -> None:
    """The library that R's arrow-free packages read Arrow data with, from an Arrow stream."""
    need("nanoarrow")
    import nanoarrow
    import pyarrow as pa

    stream = io.BytesIO()
    table = pq.read_table(release / "preferences.parquet")
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    read = nanoarrow.ArrayStream.from_readable(stream.getvalue()).read_all()
    columns = {field.name: number for number, field in enumerate(read.schema.fields)}
    scores = list(read.child(columns["score_1"]).iter_py())
    preferred = list(read.child(columns["preferred"]).iter_py())
    assert (len(scores), sum(scores), preferred.count(1)) == numbers


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")
def test_mlcroissant_validates_without_a_warning_and_reads_the_same_numbers(
    release: Path,
    numbers: tuple[int, int, int],
    need: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    need("mlcroissant")
    import mlcroissant

    with caplog.at_level(logging.WARNING):
        dataset = mlcroissant.Dataset(str(release / "croissant.json"))
    assert not caplog.records
    metadata = dataset.metadata
    assert metadata.license == ["https://spdx.org/licenses/CC-BY-4.0.html"]
    rows = list(dataset.records("preferences"))
    scores = [row["preferences/score_1"] for row in rows]
    preferred = [row["preferences/preferred"] for row in rows]
    assert (len(rows), sum(scores), preferred.count(1)) == numbers


@pytest.mark.slow  # importing TRL takes longer than the test
def test_trl_takes_its_rows(release: Path, numbers: tuple[int, int, int], need: Any) -> None:
    """With TRL's own function; the preferred set is the chosen answer."""
    need("trl")
    import datasets
    from trl.data_utils import is_conversational, prepare_multimodal_messages

    files = {part: str(release / f"trl-{part}.parquet") for part in ("train", "test")}
    answers = {
        row["question_id"]: row["preferred"]
        for row in pq.read_table(release / "preferences.parquet").to_pylist()
    }
    loaded = datasets.load_dataset("parquet", data_files=files)
    n_rows = 0
    for row in (row for part in loaded.values() for row in part):
        n_rows += 1
        assert is_conversational(row)
        drop_nulls = [
            {**message, "content": [
                {key: value for key, value in piece.items() if value is not None}
                for piece in message["content"]
            ]}
            for message in row["prompt"]
        ]  # fmt: skip
        (prepared,) = prepare_multimodal_messages(drop_nulls, images=row["images"])
        pictures = [piece["image"] for piece in prepared["content"] if piece["type"] == "image"]
        assert [picture.size[0] for picture in pictures] == [8] * 11
        chosen = row["chosen"][0]["content"][0]["text"]
        assert chosen == f"Set {answers[row['question_id']]}"
        assert row["rejected"][0]["content"][0]["text"] != chosen
    (note,) = [note for note in manifest_of(release)["notes"] if "trl" in note]
    assert "an image is absent" in note
    assert 0 < n_rows < numbers[0]


@pytest.mark.filterwarnings(
    "ignore:Exception ignored in.*webdataset:pytest.PytestUnraisableExceptionWarning"
)
def test_webdataset_reads_its_shards(
    release: Path, numbers: tuple[int, int, int], need: Any
) -> None:
    need("webdataset")
    import webdataset

    shards = sorted(str(path) for path in release.glob("webdataset-*.tar"))
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode("pil"))
    answers = [sample["json"] for sample in samples]
    assert len({answer["question_id"] for answer in answers}) == numbers[0]
    assert sum(answer["score_1"] for answer in answers) == numbers[1]
    for sample in samples:
        for place, member in sample["json"]["images"].items():
            assert (member is None) == (place not in {key.partition(".")[0] for key in sample})
        assert all(sample[key].size[0] == 8 for key in sample if key.endswith(".png"))


# ------------------------------------------------------------------------------------------- files


def test_csv_is_that_of_rfc_4180(release: Path) -> None:
    content = (release / "sets.csv").read_bytes()
    assert content.endswith(b"\r\n")
    with (release / "sets.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = pq.read_table(release / "sets.parquet").to_pylist()
    assert [json.loads(row["image_ids"]) for row in rows] == [row["image_ids"] for row in expected]
    assert [row["set_id"] for row in rows] == [row["set_id"] for row in expected]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'quoted", "=cmd|' /C"])
def test_no_cell_is_a_formula_and_one_apostrophe_less_is_the_text(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert cell(f"a{text}") == f"a{text}"


def test_image_files_have_their_sizes_and_digests(release: Path) -> None:
    rows = pq.read_table(release / "images.parquet").to_pylist()
    assert [row["image_id"] for row in rows] == sorted(row["image_id"] for row in rows)
    for row in rows:
        if row["image_id"] == ABSENT:
            assert [row[name] for name in ("image", "sha256", "width", "bytes")] == [None] * 4
        else:
            assert row["sha256"] == hashlib.sha256(row["image"]).hexdigest()
            assert (row["width"], row["bytes"]) == (8, len(row["image"]))
    assert "1 images are absent" in " ".join(manifest_of(release)["notes"])


def test_the_release_is_valid_and_the_same_twice(
    database: Database, release: Path, tmp_path: Path
) -> None:
    verified = hsfiq("release", "verify", release)
    note, valid = verified.out.splitlines()
    assert (verified.code, valid) == (0, f"{release}: valid")
    assert note.startswith("note: images.parquet, trl and webdataset are compared by their digests")
    again = export(database, tmp_path / "again", EVERYTHING)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in release.iterdir()
    }


def test_the_content_digest_covers_the_images_and_not_the_order_of_the_layouts(
    database: Database, release: Path, tmp_path: Path
) -> None:
    turned = replace(EVERYTHING, layouts=LAYOUTS[::-1])
    again = export(database, tmp_path / "turned", turned)
    own = manifest_of(release)["content_sha256"]
    assert manifest_of(again)["content_sha256"] == own
    packed = Extras(layouts=("csv",), images=True, publication=PUBLICATION)
    without = manifest_of(export(database, tmp_path / "absent", packed))["content_sha256"]
    with database.reading() as session:
        root = Path(session.scalars(select(Dataset.image_root)).one())
    file = root / f"{ABSENT}.png"
    try:
        Picture.new("RGB", (8, 8)).save(file)
        there = manifest_of(export(database, tmp_path / "there", packed))["content_sha256"]
    finally:
        file.unlink()
    assert there != without


def test_without_images_trl_names_them(database: Database, tmp_path: Path) -> None:
    release = export(database, tmp_path / "trl", Extras(layouts=("trl",)))
    tables = [pq.read_table(path) for path in sorted(release.glob("trl-*.parquet"))]
    rows = [row for table in tables for row in table.to_pylist()]
    assert {image["bytes"] for row in rows for image in row["images"]} == {None}
    assert {len(row["images"]) for row in rows} == {11}
    assert len(rows) == sum(manifest_of(release)["split"]["n"].values())


@pytest.mark.parametrize(
    ("extras", "kind", "where"),
    [
        (Extras(layouts=("webdataset",)), "hp", "--with-images"),
        (Extras(images=True), "hp", "no license"),
        (Extras(layouts=("hpfiq",)), "hs", "is for hp"),
    ],
)
def test_what_a_release_cannot_have_is_refused(
    database: Database, extras: Extras, kind: str, where: str, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableInput, match=where):
        export(database, tmp_path / "refused", extras, kind)
    assert not (tmp_path / "refused").exists()


def test_layouts_of_pairs_need_pairs_that_fit(tmp_path: Path) -> None:
    layouts: tuple[Layout, ...] = ("trl", "webdataset", "hpfiq")
    for layout in layouts:
        with pytest.raises(UnreadableInput, match=f"--layout {layout}"):
            require_extras(Extras(layouts=(layout,), images=True), "single", "MIT")
    with pytest.raises(NothingToDo, match="--layout hpfiq"):
        write_layouts(tmp_path, (), Extras(layouts=("hpfiq",)), None)


@pytest.mark.parametrize("kind", ["search", "arena"])
def test_images_that_only_a_turn_names_are_packed(kind: str, tmp_path: Path) -> None:
    database, study = small_study_at(tmp_path / "it.db", kind)
    with database.writing() as session:
        dataset = session.scalars(select(Dataset)).one()
        dataset.image_root = str(tmp_path)
        another = added(session, Image(dataset_id=dataset.id, name="another")).id
        for each in session.scalars(select(SearchList)):
            each.image_ids = [*each.image_ids[:-1], another]
        for name in session.scalars(select(Image.name)):
            Picture.new("RGB", (4, 4)).save(tmp_path / f"{name}.png")
    extras = Extras(images=True, publication=PUBLICATION)
    release = write_release(database, study, kind, tmp_path / "release", extras=extras)
    database.close()
    queries, turns, images = (
        pq.read_table(release / f"{table}.parquet").to_pylist()
        for table in ("queries", "turns", "images")
    )
    of_queries = {row[name] for row in queries for name in ("reference_id", "target_id")} - {None}
    lists = [name for name in turns[0] if name.startswith("image_ids")]
    of_turns = {image for row in turns for name in lists for image in row[name] or ()}
    assert len(lists) == (2 if kind == "arena" else 1)
    assert of_turns - of_queries == {"another"}
    assert {row["image_id"] for row in images} == of_queries | of_turns | {
        row["reference_id"] for row in turns
    }
    assert hsfiq("release", "verify", release).code == 0
