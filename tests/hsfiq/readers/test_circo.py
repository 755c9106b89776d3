"""CIRCO's annotations, without images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers import datasets

TEST: dict[str, object] = {
    "reference_img_id": 4, "relative_caption": "is red", "shared_concept": "a dog", "id": 0,
}  # fmt: skip
VAL = TEST | {"target_img_id": 7, "gt_img_ids": [9, 7, 8], "semantic_aspects": ["negation"]}


def write(folder: Path, entries: object, name: str = "val.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["val.json", "annotations/val.json"])
def test_reading_a_folder(tmp_path: Path, name: str) -> None:
    source = datasets.read_circo_annotations(write(tmp_path, [VAL], name), "val")
    assert source.path == tmp_path / name
    assert source.images is None
    (query,) = source.queries
    assert (query.query_id, query.reference, query.caption) == ("0", "4", "is red")
    assert (query.target, query.truths, query.aspects) == ("7", ("7", "9", "8"), ("negation",))


def test_the_test_split_has_no_targets(tmp_path: Path) -> None:
    (query,) = datasets.read_circo_annotations(write(tmp_path, [TEST], "test.json"), "test").queries
    assert (query.target, query.truths, query.aspects) == (None, (), ())


@pytest.mark.parametrize("place", ["annotations", "COCO2017_unlabeled/annotations"])
def test_the_list_of_images(tmp_path: Path, place: str) -> None:
    write(tmp_path, [VAL])
    write(tmp_path, {"images": [{"id": 9}, {"id": 4}]}, f"{place}/{datasets.INDEX}")
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
def test_broken_entries_are_named(entries: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=message):
        datasets.read_circo_annotations(write(tmp_path, entries), "val")


def test_missing_files_are_named(tmp_path: Path) -> None:
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
