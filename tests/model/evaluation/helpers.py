"""Small benchmarks with hand-computed figures, and runs on them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.model.scorer.helpers import CommandResult, hsfiq

Lists = Mapping[str, Sequence[object]]

SHIRTS = [f"s{i}" for i in range(60)]
DRESSES = [f"d{i}" for i in range(60)]
SHIRT_TRIPLETS = [("s0", "s1"), ("s2", "s3"), ("s4", "s5"), ("s0", "s6")]
DRESS_TRIPLETS = [("d0", "d1"), ("d2", "d3")]
SHIRT_UNION = [f"s{i}" for i in range(7)]

MEMBERS = [f"dev-{i}-0-img0" for i in range(70)]
"""CIRR's images: pairid 10 + i has member 6i of the image set 6i to 6i + 5 as its reference."""


def put(path: Path, value: object) -> Path:
    """Write a JSON file and create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_fashioniq(folder: Path) -> Path:
    """Sixty shirts with four triplets, sixty dresses with two, and a test file."""
    categories = ("shirt", SHIRTS, SHIRT_TRIPLETS), ("dress", DRESSES, DRESS_TRIPLETS)
    for category, images, triplets in categories:
        put(folder / "image_splits" / f"split.{category}.val.json", images)
        put(
            folder / "captions" / f"cap.{category}.val.json",
            [
                {"candidate": ref, "target": target, "captions": ["is Red.", "has dots"]}
                for ref, target in triplets
            ],
        )
    put(folder / "image_splits" / "split.shirt.test.json", SHIRTS)
    put(
        folder / "captions" / "cap.shirt.test.json",
        [{"candidate": "s0", "captions": ["is red", "has dots"]}],
    )
    return folder


def write_cirr(folder: Path, n: int = 4) -> Path:
    """Seventy images with n queries in val and, without targets, in test1."""
    for split in ("val", "test1"):
        put(
            folder / "image_splits" / f"split.rc2.{split}.json",
            {member: member for member in MEMBERS},
        )
        entries = [
            {
                "pairid": 10 + i,
                "reference": MEMBERS[6 * i],
                "caption": "two dogs",
                "img_set": {"id": i, "members": MEMBERS[6 * i : 6 * i + 6]},
            }
            | ({"target_hard": MEMBERS[6 * i + 1]} if split == "val" else {})
            for i in range(n)
        ]
        put(folder / "captions" / f"cap.rc2.{split}.json", entries)
    return folder


def write_circo(folder: Path, *, indexed: bool = True) -> Path:
    """A hundred COCO images, two queries with ground truths in val, three without in test."""
    truths = [[201, 202, 203], [210]]
    aspects = [["addition", "negation"], ["addition"]]
    put(
        folder / "annotations" / "val.json",
        [
            {"id": i, "reference_img_id": 250, "relative_caption": "is red",
             "shared_concept": "a dog", "target_img_id": truths[i][0], "gt_img_ids": truths[i],
             "semantic_aspects": aspects[i]}
            for i in range(2)
        ],
    )  # fmt: skip
    put(
        folder / "annotations" / "test.json",
        [
            {"id": i, "reference_img_id": 250, "relative_caption": "is red", "shared_concept": "a"}
            for i in range(3)
        ],
    )
    if indexed:
        put(
            folder / "COCO2017_unlabeled" / "annotations" / "image_info_unlabeled2017.json",
            {"images": [{"id": 200 + i, "file_name": f"{200 + i:012d}.jpg"} for i in range(100)]},
        )
    return folder


def filled(first: Sequence[str], images: Sequence[str], n: int = 50, seed: int = 0) -> list[str]:
    """A list of n images that starts with `first` and continues with random others."""
    remaining = [image for image in images if image not in first]
    random.Random(seed).shuffle(remaining)
    return [*first, *remaining][:n]


SHIRT_RUN = {
    "shirt.val.0": filled(["s0", "s1"], SHIRTS),  # at 2
    "shirt.val.1": filled(["s3"], SHIRTS),  # at 1
    "shirt.val.2": [*filled(["s4"], [each for each in SHIRTS if each != "s5"], 49), "s5"],  # at 50
    "shirt.val.3": filled(["s8", "s9", "s10", "s11", "s6"], SHIRTS),  # at 5
}
DRESS_RUN = {
    "dress.val.0": filled(["d5", "d6", "d7", "d8", "d9", "d1"], DRESSES),  # at 6
    "dress.val.1": filled(["d2"], [image for image in DRESSES if image != "d3"]),  # nowhere
}
BEST_RUN = {
    **{f"shirt.val.{i}": filled([f"s{[1, 3, 5, 6][i]}"], SHIRTS) for i in range(4)},
    **{f"dress.val.{i}": filled([f"d{2 * i + 1}"], DRESSES) for i in range(2)},
}
"""Every target comes first."""


def best_of_cirr() -> dict[str, list[str]]:
    """Lists of four queries of CIRR that start with their image set, the target first."""
    return {
        str(10 + i): filled(
            MEMBERS[6 * i + 1 : 6 * i + 6], [each for each in MEMBERS if each != MEMBERS[6 * i]]
        )
        for i in range(4)
    }


def evaluate(name: str, data: Path, run: Path, *options: str | Path) -> CommandResult:
    """Run the command."""
    return hsfiq("evaluate", name, "--data", data, "--run", run, *options)


def result(name: str, data: Path, run: Path, *options: str | Path) -> Any:
    """The command's JSON result."""
    command = evaluate(name, data, run, *options, "--json")
    assert command.code == 0, command.err
    return json.loads(command.out)


def refusal(command: CommandResult) -> str:
    """The error line of a refused command."""
    assert (command.code, command.out) == (2, "")
    (line,) = command.err.splitlines()
    assert line.startswith("hsfiq: ")
    return line
