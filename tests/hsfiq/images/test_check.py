"""Missing and broken images of every kind are found and counted, without a traceback."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from hsfiq.images.check import AHEAD, check_images, find_faults, sha256_of
from hsfiq.images.display import find_fault
from hsfiq.images.folder import NOT_REGULAR, Fault, ImageFolder
from hsfiq.readers.datasets import dataset_of, read_folder
from tests.hsfiq.samples import CIRR, FASHIONIQ, hsfiq

CIRCO = [
    {
        "reference_img_id": 3, "target_img_id": 12, "gt_img_ids": [12, 44], "id": 0,
        "relative_caption": "shows two dogs", "shared_concept": "a dog",
        "semantic_aspects": ["cardinality"],
    }
]  # fmt: skip


def picture(kind: str = "JPEG", size: tuple[int, int] = (60, 80)) -> bytes:
    file = BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(file, kind)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """FashionIQ with all images intact."""
    root = tmp_path / "fiq"
    shutil.copytree(FASHIONIQ, root)
    (root / "images").mkdir()
    for split in read_folder(root):
        for name in split.images:
            (root / "images" / f"{name}.jpg").write_bytes(picture())
    return root


def circo(root: Path) -> Path:
    (root / "annotations").mkdir(parents=True)
    (root / "annotations" / "val.json").write_text(json.dumps(CIRCO), encoding="utf-8")
    return root


def test_a_complete_folder_has_no_faults(folder: Path) -> None:
    command = hsfiq("images", "check", folder)
    assert (command.code, command.err) == (0, "")
    assert command.out.splitlines() == [
        f"fashioniq, images below {folder}/images: 18 of 18 complete",
        "  dress.val: 3 of 3; 0 of 1 queries affected",
        "  shirt.test: 2 of 2; 0 of 1 queries affected",
        "  shirt.val: 13 of 13; 0 of 3 queries affected",
    ]


def test_each_fault_lists_the_queries_it_affects(folder: Path) -> None:
    images = folder / "images"
    (images / "ref_a.jpg").write_bytes(picture()[:-40])
    (images / "tgt_a.jpg").write_text("<html>Not Found</html>")
    (images / "s1.jpg").unlink()
    (images / "s2.jpg").write_bytes(b"")
    (images / "s3.jpg").write_bytes(picture(size=(1, 1)))
    command = hsfiq("images", "check", folder, "--category", "shirt", "--split", "val", "--json")
    assert (command.code, command.err) == (1, "")
    result = command.result
    faults = {
        row["image"]: (row["kind"], row["reference_of"], row["target_of"])
        for row in result["broken"]
    }
    assert faults == {
        "ref_a": ("truncated", ["shirt.val.0"], []),
        "tgt_a": ("undecodable", [], ["shirt.val.0"]),
        "s1": ("missing", ["shirt.val.2"], []),
        "s2": ("empty", [], ["shirt.val.2"]),
        "s3": ("one-pixel", [], []),
    }
    kinds = {"truncated": 1, "undecodable": 1, "missing": 1, "empty": 1, "one-pixel": 1}
    assert result["kinds"] == kinds
    assert result["splits"] == {
        "shirt.val": {"images": 13, "kinds": kinds, "queries": 3, "queries_touched": 2}
    }
    lines = hsfiq("images", "check", folder).out.splitlines()
    assert lines[0].endswith(
        "13 of 18 complete, 1 empty, 1 missing, 1 one-pixel, 1 truncated, 1 undecodable"
    )
    assert "s1: missing (no file: none has this name); reference of shirt.val.2" in lines
    assert any(line.startswith("s3: one-pixel") and "only a candidate" in line for line in lines)


def test_a_file_that_has_become_a_pipe_is_never_read(folder: Path) -> None:
    images = ImageFolder(folder / "images")
    path = next((folder / "images").iterdir())
    path.unlink()
    os.mkfifo(path)
    assert images.find(path.stem) == path, "the folder is listed once"
    assert sha256_of(path) == NOT_REGULAR
    assert find_fault(path) == Fault("undecodable", "is not a file")
    assert ImageFolder(folder / "images").find(path.stem) is None


def test_a_link_counts_as_soon_as_its_file_is_there(folder: Path, tmp_path: Path) -> None:
    images = folder / "images"
    path = next(images.iterdir())
    content = path.read_bytes()
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere.jpg")
    os.utime(images, (0, 0))
    listed = ImageFolder(images)
    faults = [*find_faults([path.stem], listed, find_fault, iter)]
    assert faults == [(path.stem, Fault("missing", "is a link to a file that does not exist"))]
    (tmp_path / "elsewhere.jpg").write_bytes(content)
    assert list(find_faults([path.stem], listed, find_fault, iter)) == []


def test_heic_and_huge_images_are_named(folder: Path) -> None:
    images = folder / "images"
    (images / "s8.jpg").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))
    Image.new("1", (20_000, 9_500)).save(images / "s9.png")
    (images / "s9.jpg").unlink()
    command = hsfiq("images", "check", folder, "--json")
    assert command.code == 1
    heic, huge = command.result["broken"]
    assert (heic["image"], "HEIC image: format not supported" in heic["why"]) == ("s8", True)
    assert (huge["image"], huge["kind"]) == ("s9", "too-large")


def test_several_files_for_one_image_are_named(folder: Path) -> None:
    images = folder / "images"
    (images / "shirt").mkdir()
    shutil.copy(images / "s5.jpg", images / "shirt" / "s5.jpg")
    assert hsfiq("images", "check", folder).code == 0, "two copies of one picture are no harm"
    (images / "s6.png").write_bytes(picture("PNG"))
    (images / "s3.jpg").rename(images / "S3.jpg")
    (images / "stranger.jpg").write_bytes(b"")
    command = hsfiq("images", "check", folder, "--json")
    assert command.code == 1
    assert command.result["twins"] == [
        {"files": ["s5.jpg", "shirt/s5.jpg"], "used": ["shirt/s5.jpg"], "same_content": True},
        {"files": ["s6.jpg", "s6.png"], "used": ["s6.png"], "same_content": False},
    ]
    (missing,) = command.result["broken"]
    assert (missing["image"], missing["kind"], missing["file"]) == ("s3", "missing", None)
    assert missing["why"] == "S3.jpg differs in upper and lower case"
    assert ImageFolder(images).find("s6") == images / "s6.png", "the one that readers take"


def test_cirr_and_circo(tmp_path: Path) -> None:
    root = tmp_path / "cirr"
    shutil.copytree(CIRR, root)
    (root / "img_raw" / "dev").mkdir(parents=True)
    for name in ("dev-1-0-img0", "dev-1-1-img1", "dev-2-0-img0"):
        (root / "img_raw" / "dev" / f"{name}.png").write_bytes(picture("PNG"))
    command = hsfiq("images", "check", root, "--split", "val", "--json")
    assert (command.code, command.result["dataset"]) == (0, "cirr")
    coco = circo(tmp_path / "circo") / "unlabeled2017"
    coco.mkdir()
    (coco / "000000000003.jpg").write_bytes(picture())
    (coco / "000000000012.jpg").write_bytes(picture())
    command = hsfiq("images", "check", tmp_path / "circo", "--json")
    assert command.code == 1
    (missing,) = command.result["broken"]
    assert (missing["image"], missing["target_of"], missing["truth_of"]) == ("44", [], ["0"])
    assert command.result["splits"]["val"] == {
        "images": 3, "kinds": {"missing": 1}, "queries": 1, "queries_touched": 1,
    }  # fmt: skip


def test_without_pillow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "images" / "s1.jpg").unlink()
    (folder / "images" / "s2.jpg").write_bytes(b"")
    (folder / "images" / "s3.jpg").write_bytes(b"no image")
    monkeypatch.setitem(sys.modules, "PIL", None)
    for module in ("decode", "display"):
        monkeypatch.delitem(sys.modules, f"hsfiq.images.{module}", raising=False)
    command = hsfiq("images", "check", folder)
    assert (command.code, command.err) == (1, "")
    assert "16 of 18 exist, 1 empty, 1 missing" in command.out
    assert "decoding was not checked: that needs Pillow" in command.out
    assert hsfiq("images", "check", folder, "--json").result["decoded"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (".", ".: is not a folder of FashionIQ, CIRR or CIRCO; name the one that holds captions/"),
        ("absent", "absent: there is no such folder"),
        (f"{FASHIONIQ}", "holds no image; name the image folder with --images"),
        (f"{FASHIONIQ} --images absent", "absent: there is no such folder"),
        (f"{FASHIONIQ} --category hat", "no captions of category 'hat'"),
        (f"{CIRR} --category shirt", "--category: cirr has no categories; leave it out"),
    ],
)
def test_what_cannot_be_checked(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = hsfiq("images", "check", *words.split())
    assert (command.code, command.out) == (2, "")
    assert message in command.err


def test_long_lists_are_shortened_only_in_text_output(folder: Path, tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(150)]
    split = folder / "image_splits" / "split.dress.val.json"
    split.write_text(json.dumps(["d1", "d2", "d3", *names]), encoding="utf-8")
    command = hsfiq("images", "check", folder)
    assert command.out.count(": missing (") == 100
    assert command.out.endswith("and 50 more: --json lists all\n")
    assert len(hsfiq("images", "check", folder, "--json").result["broken"]) == 150


def test_the_number_of_waiting_files_is_limited(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    n_started, n_done, most_waiting = 0, 0, 0

    def decode(path: Path) -> Fault | None:
        nonlocal n_done
        n_done += 1
        return None

    def counted(names: Sequence[str]) -> Iterator[str]:
        nonlocal n_started, most_waiting
        for name in [*names] * 20:
            n_started += 1
            most_waiting = max(most_waiting, n_started - n_done)
            yield name

    report = check_images(read_folder(folder), folder / "images", decode, counted)
    assert report.passed
    assert n_started == n_done == 360
    assert most_waiting <= AHEAD + 1


@pytest.mark.shared
def test_the_real_folders_are_recognized(shared: Path, need: Callable[..., None]) -> None:
    counts = {}
    for name in ("fashioniq", "cirr", "circo"):
        folder = shared / "data" / name
        assert dataset_of(folder) == name
        counts[name] = {split.corpus: len(split.all_images()) for split in read_folder(folder)}
    assert counts == {
        "fashioniq": {"dress.val": 3817, "shirt.val": 6346, "toptee.val": 5373},
        "cirr": {"test1": 2315, "val": 2297},
        "circo": {"val": 1121},
    }
