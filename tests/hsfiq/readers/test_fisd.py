"""FISD's layout: lists and lines, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsfiq.errors import UnreadableInput
from hsfiq.readers.datasets import ASPECTS, read_fisd


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


def write(folder: Path, change: list[dict[str, Any]]) -> None:
    """Every aspect with two triplets, `change` with these."""
    for aspect in ASPECTS:
        rows = change if aspect == "change" else [triplet(0), triplet(1)]
        (folder / f"{aspect}.json").write_text(json.dumps(rows))


def test_lists_and_lines_are_read(tmp_path: Path) -> None:
    write(tmp_path, [triplet(1, hard_negative=["a", "b"])])
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
    write(tmp_path, rows)
    with pytest.raises(UnreadableInput, match=message):
        read_fisd(tmp_path)


def test_a_missing_aspect_is_named(tmp_path: Path) -> None:
    write(tmp_path, [triplet(0)])
    (tmp_path / "negation.json").unlink()
    with pytest.raises(UnreadableInput, match=r"neither negation\.json nor negation\.jsonl here"):
        read_fisd(tmp_path)
