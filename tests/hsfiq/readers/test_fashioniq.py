"""FashionIQ's captions and split files, without images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers import datasets
from tests.hsfiq.samples import CIRR, FASHIONIQ


def test_reading_a_folder() -> None:
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


def test_the_test_split_has_no_targets() -> None:
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
def test_missing_files_are_named(categories: list[str], splits: list[str], message: str) -> None:
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
def test_broken_entries_are_named(entry: object, message: str, tmp_path: Path) -> None:
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
