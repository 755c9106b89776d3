"""`hsfiq score` on JSON lines that are no release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.model.release_scores.scored_release import (
    Loop,
    assert_refused,
    lines,
    score,
    set_scores,
)

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_files_scores_are_the_releases(loop: Loop, scored: Path, tmp_path: Path) -> None:
    rows = [
        {"id": set_id, "reference": reference, "text": text, "images": images}
        for set_id, (reference, text, images) in loop.sets.items()
    ]
    without = {**rows[0], "id": "lacking", "images": [*rows[0]["images"][:2], "absent"]}  # type: ignore[index]
    file, out = write(tmp_path / "sets.jsonl", [*rows, without]), tmp_path / "scores.jsonl"
    result = score(loop, file, "--images", loop.pictures, "--out", out, "--json")
    assert result.code == 0, result.err
    *ours, lacking = lines(out)
    assert {line["id"]: line["score"] for line in ours} == pytest.approx(set_scores(scored))
    assert all(len(line["images"]) == 5 for line in ours)
    assert (lacking["id"], lacking["score"], len(lacking["images"])) == ("lacking", None, 2)
    assert result.result["n_scored"] == len(rows)
    assert result.result["missing_images"] == ["absent"]
    again = score(loop, file, "--images", loop.pictures, "--out", out)
    assert_refused(again, "scores.jsonl: already exists")


def test_ids_are_line_numbers_where_none_is_given(loop: Loop, tmp_path: Path) -> None:
    reference, text, images = next(iter(loop.sets.values()))
    row = {"reference": reference, "text": text, "images": images}
    file = write(tmp_path / "sets.jsonl", [row, row])
    assert score(loop, file, "--images", loop.pictures, "--out", tmp_path / "out.jsonl").code == 0
    first, second = lines(tmp_path / "out.jsonl")
    assert (first["id"], second["id"]) == ("1", "2")
    assert first["score"] == second["score"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"reference": "a", "text": "is red"}, "line 1: the key 'images' is missing"),
        ({"reference": "a", "text": " ", "images": ["b"]}, "line 1: text: is empty"),
        ({"reference": "a", "text": "is red", "images": []}, "line 1: images: names no image"),
        ({"reference": "a", "text": "is red", "images": ["b"], "k": 1}, "unknown key 'k'"),
    ],
)
def test_a_wrong_line_is_named(
    loop: Loop, tmp_path: Path, row: dict[str, object], message: str
) -> None:
    file = write(tmp_path / "sets.jsonl", [row])
    result = score(loop, file, "--images", loop.pictures, "--out", tmp_path / "out.jsonl")
    assert_refused(result, message)
    assert not (tmp_path / "out.jsonl").exists()


def test_a_file_needs_out_and_a_release_refuses_it(loop: Loop, tmp_path: Path) -> None:
    file = write(tmp_path / "sets.jsonl", [])
    assert_refused(score(loop, file), "name the file for scores with --out")
    assert_refused(score(loop, loop.release, "--out", tmp_path / "x"), "--out: is for a file")
