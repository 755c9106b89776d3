"""The files of FashionIQ, CIRR, CIRCO and FISD, without images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers import datasets
from hsfiq.readers.datasets import ASPECTS, read_fisd
from tests.hsfiq.samples import CIRR, FASHIONIQ


def test_reading_a_folder_of_fashioniq() -> None:
    """Ids are positions in the captions file; the test split has no targets."""
    sources = {source.corpus: source for source in datasets.read_fashioniq(FASHIONIQ)}
    assert list(sources) == ["dress.val", "shirt.test", "shirt.val"]
    shirts = sources["shirt.val"]
    assert [triplet.external_id for triplet in shirts.triplets] == [
        *("shirt.val.0", "shirt.val.1", "shirt.val.2")
    ]
    first = shirts.triplets[0]
    assert (first.category, first.split, first.captions) == (
        *("shirt", "val"), ("is red", "has no collar"),
    )  # fmt: skip
    assert (first.reference, first.target) == ("ref_a", "tgt_a")
    assert shirts.images[-1] == "s9"
    assert [triplet.target for triplet in sources["shirt.test"].triplets] == [None]
    with pytest.raises(UnreadableInput, match="both that category and that split"):
        datasets.read_fashioniq(FASHIONIQ, ["dress"], ["test"])


@pytest.mark.shared
def test_the_real_validation_files(shared: Path) -> None:
    sources = datasets.read_fashioniq(shared / "data" / "fashioniq", splits=["val"])
    triplets = {source.corpus: len(source.triplets) for source in sources}
    assert triplets == {"dress.val": 2017, "shirt.val": 2038, "toptee.val": 1961}
    splits = {source.corpus: len(source.images) for source in sources}
    assert splits == {"dress.val": 3817, "shirt.val": 6346, "toptee.val": 5373}
    unions = {
        source.corpus: len({name for t in source.triplets for name in (t.reference, t.target)})
        for source in sources
    }
    assert unions == {"dress.val": 2628, "shirt.val": 3089, "toptee.val": 2902}
    assert sources[1].triplets[-1].external_id == "shirt.val.2037"


def test_reading_a_folder_of_cirr(tmp_path: Path) -> None:
    """Also in a subfolder; test1 has no targets."""
    sources = {source.corpus: source for source in datasets.read_cirr(CIRR)}
    assert list(sources) == ["test1", "val"]
    first = sources["val"].triplets[0]
    assert (first.external_id, first.split, first.category) == ("7", "val", "")
    assert (first.reference, first.target) == ("dev-1-0-img0", "dev-1-1-img1")
    assert first.captions == ("show two dogs",)
    assert sources["val"].images == ("dev-1-0-img0", "dev-1-1-img1", "dev-2-0-img0")
    assert sources["val"].image_sets["12"] == ("dev-1-1-img1", "dev-2-0-img0")
    assert [(t.external_id, t.target) for t in sources["test1"].triplets] == [("3", None)]
    shutil.copytree(CIRR, tmp_path / "cirr")
    assert [source.corpus for source in datasets.read_cirr(tmp_path)] == ["test1", "val"]


def test_training_needs_no_image_sets(tmp_path: Path) -> None:
    shutil.copytree(CIRR, tmp_path / "it")
    entry = {
        "pairid": 1,
        "reference": "dev-1-0-img0",
        "caption": "a",
        "target_hard": "dev-2-0-img0",
    }
    captions = tmp_path / "it" / "captions" / "cap.rc2.val.json"
    captions.write_text(json.dumps([entry]), encoding="utf-8")
    assert datasets.read_cirr(tmp_path / "it", ["val"])[0].image_sets == {}


@pytest.mark.shared
def test_the_real_files(shared: Path) -> None:
    sources = {source.corpus: source for source in datasets.read_cirr(shared / "data" / "cirr")}
    counts = {name: (len(source.triplets), len(source.images)) for name, source in sources.items()}
    assert counts == {"val": (4181, 2297), "test1": (4148, 2315)}
    assert all(triplet.target for triplet in sources["val"].triplets)
    assert not any(triplet.target for triplet in sources["test1"].triplets)
    assert all(triplet.external_id.isdecimal() for triplet in sources["val"].triplets)
    for source in sources.values():
        assert all(len(set(image_set)) == 6 for image_set in source.image_sets.values())
        assert all(
            {triplet.reference, triplet.target or triplet.reference}
            <= set(source.image_sets[triplet.external_id])
            for triplet in source.triplets
        )


TEST: dict[str, object] = {
    "reference_img_id": 4, "relative_caption": "is red", "shared_concept": "a dog", "id": 0,
}  # fmt: skip
VAL = TEST | {"target_img_id": 7, "gt_img_ids": [9, 7, 8], "semantic_aspects": ["negation"]}


def write_circo(folder: Path, entries: object, name: str = "val.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["val.json", "annotations/val.json"])
def test_reading_a_folder_of_circo(tmp_path: Path, name: str) -> None:
    source = datasets.read_circo_annotations(write_circo(tmp_path, [VAL], name), "val")
    assert source.path == tmp_path / name
    assert source.images is None
    (query,) = source.queries
    assert (query.query_id, query.reference, query.caption) == ("0", "4", "is red")
    assert (query.target, query.truths, query.aspects) == ("7", ("7", "9", "8"), ("negation",))


def test_the_test_split_of_circo_has_no_targets(tmp_path: Path) -> None:
    (query,) = datasets.read_circo_annotations(
        write_circo(tmp_path, [TEST], "test.json"), "test"
    ).queries
    assert (query.target, query.truths, query.aspects) == (None, (), ())


@pytest.mark.parametrize("place", ["annotations", "COCO2017_unlabeled/annotations"])
def test_the_list_of_images(tmp_path: Path, place: str) -> None:
    write_circo(tmp_path, [VAL])
    write_circo(tmp_path, {"images": [{"id": 9}, {"id": 4}]}, f"{place}/{datasets.INDEX}")
    assert datasets.read_circo_annotations(tmp_path, "val").images == ("9", "4")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([VAL, VAL], r"val.json: \[1\]: the id 0 occurs twice"),
        ([VAL | {"gt_img_ids": [8]}], r"\[0\].gt_img_ids: must be the target and other images"),
        ([VAL | {"gt_img_ids": [7, 7]}], r"\[0\].gt_img_ids: must be the target and other images"),
        ([VAL | {"target_img_id": "7"}], r"target_img_id: expected an integer, found '7'"),
        ([VAL | {"reference_img_id": -7}], r"reference_img_id: '-7'"),
        ([VAL | {"id": 10**12}], r"\[0\].id: '1000000000000' is not a COCO image id"),
        ([{**TEST, "target_img_id": 7}], r"the key 'gt_img_ids' is missing"),
        ({"0": VAL}, "expected a list, found an object"),
        ([3], r"\[0\]: expected an object, found 3"),
        ([None], r"\[0\]: expected an object, found null"),
    ],
)
def test_broken_entries_of_circo_are_named(entries: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"neither val\.json nor annotations/val\.json"):
        datasets.read_circo_annotations(tmp_path, "val")
    with pytest.raises(UnreadableInput, match=message):
        datasets.read_circo_annotations(write_circo(tmp_path, entries), "val")


@pytest.mark.shared
def test_the_real_files_of_circo(shared: Path) -> None:
    source = datasets.read_circo_annotations(shared / "data" / "circo", "val")
    assert [query.query_id for query in source.queries] == [str(i) for i in range(220)]
    mean = sum(len(query.truths) for query in source.queries) / 220
    assert mean == pytest.approx(4.16, abs=0.005)
    assert all(query.truths[0] == query.target for query in source.queries)
    aspects = [aspect for query in source.queries for aspect in query.aspects]
    assert aspects.count("statement_with_conjunction") == 164
    assert len(set(aspects)) == 9


def triplet(number: int, **changes: Any) -> dict[str, Any]:
    images = {"reference": f"r{number}", "target": f"t{number}", "hard_negative": f"n{number}"}
    return {"id": f"t{number}", **images, "caption": "has no dog", "aspect": "negation"} | changes


def write_fisd(folder: Path, change: list[dict[str, Any]]) -> None:
    """Every aspect with two triplets, `change` with these."""
    for aspect in ASPECTS:
        rows = change if aspect == "change" else [triplet(0), triplet(1)]
        (folder / f"{aspect}.json").write_text(json.dumps(rows))


def test_lists_and_lines_are_read(tmp_path: Path) -> None:
    write_fisd(tmp_path, [triplet(1, hard_negative=["a", "b"])])
    (tmp_path / "complex.json").unlink()
    lines = [json.dumps(triplet(number)) for number in (4, 2)]
    (tmp_path / "complex.jsonl").write_text("\n".join(lines) + "\n")
    aspects = read_fisd(tmp_path)
    assert tuple(aspects) == ASPECTS
    assert aspects["change"][0].images == ("r1", "t1", "a", "b")
    assert [each.triplet_id for each in aspects["complex"]] == ["t4", "t2"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no triplet"),
        ([triplet(0), triplet(0, reference="r", target="t", hard_negative="n")], "id 't0' occurs"),
        ([triplet(0), triplet(1, target="r0")], "'r0' is also in triplet 't0'"),
        ([triplet(0, hard_negative="r0")], "'r0' is also in triplet|twice"),
        ([triplet(0, hard_negative=[])], "at least one hard negative"),
        ([{"id": "t0"}], "the key 'hard_negative' is missing"),
        ([triplet(0, caption=7)], "expected text, found 7"),
        (None, r"has neither change\.json nor change\.jsonl"),
    ],
)
def test_unusable_aspects_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]] | None, message: str
) -> None:
    write_fisd(tmp_path, rows or [])
    if rows is None:
        (tmp_path / "change.json").unlink()
    with pytest.raises(UnreadableInput, match=message):
        read_fisd(tmp_path)
