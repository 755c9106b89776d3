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
    sources = {source.corpus: source for source in datasets.read_fashioniq(FASHIONIQ)}
    assert list(sources) == ["dress.val", "shirt.test", "shirt.val"]
    first = sources["shirt.val"].triplets[0]
    assert (first.external_id, first.category, first.split) == ("shirt.val.0", "shirt", "val")
    assert (first.reference, first.target) == ("ref_a", "tgt_a")
    assert first.captions == ("is red", "has no collar")
    assert sources["shirt.val"].images[-1] == "s9"


def test_ids_are_positions_in_the_captions_file() -> None:
    (source,) = datasets.read_fashioniq(FASHIONIQ, ["shirt"], ["val"])
    ids = [triplet.external_id for triplet in source.triplets]
    assert ids == ["shirt.val.0", "shirt.val.1", "shirt.val.2"]


def test_fashioniq_the_test_fashioniq_split_has_no_targets() -> None:
    (source,) = datasets.read_fashioniq(FASHIONIQ, splits=["test"])
    assert [triplet.target for triplet in source.triplets] == [None]


@pytest.mark.parametrize(
    ("categories", "splits", "message"),
    [
        (["skirt"], [], "no captions of category 'skirt'; there are dress, shirt"),
        ([], ["train"], "no captions of split 'train'; there are test, val"),
        (["dress"], ["test"], "no captions file has both that category and that split"),
    ],
)
def test_missing_files_of_fashioniq_are_named(
    categories: list[str], splits: list[str], message: str
) -> None:
    with pytest.raises(UnreadableInput, match=message):
        datasets.read_fashioniq(FASHIONIQ, categories, splits)


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no captions/cap"):
        datasets.read_fashioniq(tmp_path)
    with pytest.raises(UnreadableInput, match="no captions/cap"):
        datasets.read_fashioniq(CIRR)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"candidate": "ref_a", "target": "tgt_a"}, r"\[0\]: the key 'captions' is missing"),
        ({"candidate": "ref_a", "captions": ["a"] * 3}, r"\[0\]: 3 captions, a triplet has 2"),
        ({"candidate": "ref_z", "captions": ["a"] * 2}, r"\[0\].candidate: image 'ref_z' is not"),
        (
            {"candidate": "ref_a", "target": "tgt_z", "captions": ["a"] * 2},
            r"\[0\].target: image 'tgt_z' is not in the split file",
        ),
        ({"candidate": "ref_a", "captions": ["a", 1]}, r"\[0\].captions\[1\]: expected text"),
        (["ref_a"], r"\[0\]: expected an object, found a list"),
    ],
)
def test_broken_entries_of_fashioniq_are_named(entry: object, message: str, tmp_path: Path) -> None:
    shutil.copytree(FASHIONIQ, tmp_path / "fiq")
    captions = tmp_path / "fiq" / "captions" / "cap.shirt.val.json"
    captions.write_text(json.dumps([entry]), encoding="utf-8")
    with pytest.raises(UnreadableInput, match=rf"cap\.shirt\.val\.json: {message}"):
        datasets.read_fashioniq(tmp_path / "fiq", ["shirt"], ["val"])


def test_a_missing_split_file_is_named(tmp_path: Path) -> None:
    shutil.copytree(FASHIONIQ, tmp_path / "fiq")
    (tmp_path / "fiq" / "image_splits" / "split.dress.val.json").unlink()
    with pytest.raises(UnreadableInput, match=r"split\.dress\.val\.json: there is no such file"):
        datasets.read_fashioniq(tmp_path / "fiq")


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


def test_reading_a_folder_of_cirr() -> None:
    sources = {source.corpus: source for source in datasets.read_cirr(CIRR)}
    assert list(sources) == ["test1", "val"]
    first = sources["val"].triplets[0]
    assert (first.external_id, first.split, first.category) == ("7", "val", "")
    assert (first.reference, first.target) == ("dev-1-0-img0", "dev-1-1-img1")
    assert first.captions == ("show two dogs",)
    assert sources["val"].images == ("dev-1-0-img0", "dev-1-1-img1", "dev-2-0-img0")
    assert sources["val"].image_sets["12"] == ("dev-1-1-img1", "dev-2-0-img0")


def test_test1_has_no_targets() -> None:
    (source,) = datasets.read_cirr(CIRR, ["test1"])
    assert [(t.external_id, t.target) for t in source.triplets] == [("3", None)]


def test_training_needs_no_image_sets(tmp_path: Path) -> None:
    shutil.copytree(CIRR, tmp_path / "it")
    captions = tmp_path / "it" / "captions" / "cap.rc2.val.json"
    captions.write_text(json.dumps([ENTRY]), encoding="utf-8")
    assert datasets.read_cirr(tmp_path / "it", ["val"])[0].image_sets == {}


def test_the_files_may_be_in_a_subfolder_cirr(tmp_path: Path) -> None:
    shutil.copytree(CIRR, tmp_path / "cirr")
    assert [source.corpus for source in datasets.read_cirr(tmp_path)] == ["test1", "val"]


def test_missing_files_of_cirr_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no captions of split 'train'; there are test1, val"):
        datasets.read_cirr(CIRR, ["train"])
    with pytest.raises(UnreadableInput, match="no captions/cap"):
        datasets.read_cirr(tmp_path)


ENTRY = {"pairid": 1, "reference": "dev-1-0-img0", "caption": "a", "target_hard": "dev-2-0-img0"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([ENTRY, ENTRY], r"\[1\]: the pairid 1 occurs twice"),
        ([ENTRY | {"pairid": "1"}], r"\[0\].pairid: expected an integer, found '1'"),
        ([ENTRY | {"pairid": 10**300}], r"\[0\].pairid: an id here has 1 to 200 characters"),
        ([ENTRY | {"reference": "dev-9"}], r"\[0\].reference: image 'dev-9' is not in the split"),
        ([ENTRY | {"target_hard": None}], r"\[0\].target_hard: expected text, found null"),
        ([ENTRY | {"img_set": {"members": "a"}}], r"\[0\].img_set.members: expected a list"),
        ([ENTRY | {"img_set": {}}], r"\[0\].img_set: the key 'members' is missing"),
        ({"1": ENTRY}, "expected a list, found an object"),
    ],
)
def test_broken_entries_of_cirr_are_named(entries: object, message: str, tmp_path: Path) -> None:
    shutil.copytree(CIRR, tmp_path / "it")
    captions = tmp_path / "it" / "captions" / "cap.rc2.val.json"
    captions.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(UnreadableInput, match=message):
        datasets.read_cirr(tmp_path / "it")


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
        ([VAL | {"reference_img_id": -7}], r"reference_img_id: '-7' is not a COCO image id"),
        (
            [VAL | {"id": 10**12}],
            r"\[0\].id: '1000000000000' is not a COCO image id; it must have 1 to 12",
        ),
        ([{**TEST, "target_img_id": 7}], r"the key 'gt_img_ids' is missing"),
        ({"0": VAL}, "expected a list, found an object"),
        ([3], r"\[0\]: expected an object, found 3"),
        ([None], r"\[0\]: expected an object, found null"),
    ],
)
def test_broken_entries_of_circo_are_named(entries: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=message):
        datasets.read_circo_annotations(write_circo(tmp_path, entries), "val")


def test_missing_files_of_circo_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"neither val\.json nor annotations/val\.json here"):
        datasets.read_circo_annotations(tmp_path, "val")


@pytest.mark.shared
def test_the_real_file(shared: Path) -> None:
    source = datasets.read_circo_annotations(shared / "data" / "circo", "val")
    assert [query.query_id for query in source.queries] == [str(i) for i in range(220)]
    assert sum(len(query.truths) for query in source.queries) / 220 == pytest.approx(
        4.16, abs=0.005
    )
    assert all(query.truths[0] == query.target for query in source.queries)
    aspects = [aspect for query in source.queries for aspect in query.aspects]
    assert aspects.count("statement_with_conjunction") == 164
    assert len(set(aspects)) == 9


def triplet(number: int, **changes: Any) -> dict[str, Any]:
    values = {
        "id": f"t{number}",
        "reference": f"r{number}",
        "target": f"t{number}",
        "hard_negative": f"n{number}",
        "caption": "has no dog",
        "aspect": "negation",
    }
    return {**values, **changes}


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
        ([triplet(0, hard_negative=[])], "one hard negative or more"),
        ([{"id": "t0"}], "the key 'hard_negative' is missing"),
        ([triplet(0, caption=7)], "expected text, found 7"),
    ],
)
def test_unusable_aspects_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    write_fisd(tmp_path, rows)
    with pytest.raises(UnreadableInput, match=message):
        read_fisd(tmp_path)


def test_a_missing_aspect_is_named(tmp_path: Path) -> None:
    write_fisd(tmp_path, [triplet(0)])
    (tmp_path / "negation.json").unlink()
    with pytest.raises(UnreadableInput, match=r"neither negation\.json nor negation\.jsonl here"):
        read_fisd(tmp_path)
