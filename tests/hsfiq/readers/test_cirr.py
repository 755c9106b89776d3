"""CIRR's captions and split files, release rc2, without images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers import datasets
from tests.hsfiq.samples import CIRR


def test_reading_a_folder() -> None:
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


def test_missing_files_are_named(tmp_path: Path) -> None:
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
def test_broken_entries_are_named(entries: object, message: str, tmp_path: Path) -> None:
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
