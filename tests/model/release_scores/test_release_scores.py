"""Scores of sets with missing images and of plain JSON lines, compared with one image at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.image_tokens import FeatureCache
from hsfiq.model.recipes import Pooling
from hsfiq.model.release_scores import (
    SetScores,
    are_complete,
    earlier_scores,
    score_sets,
    write_scores,
)
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import Inference
from hsfiq.releases.folder import ReleasedSet
from hsfiq.text import first_few
from tests.model.encoders.small_encoder import CPU, SmallEncoder, draw_images, fill
from tests.model.release_scores.scored_release import Loop, assert_refused, lines, score, set_scores

pytestmark = pytest.mark.usefixtures("one_thread")


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.xdist_group("scored release")
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


@pytest.mark.xdist_group("scored release")
def test_ids_are_line_numbers_where_none_is_given(loop: Loop, tmp_path: Path) -> None:
    reference, text, images = next(iter(loop.sets.values()))
    row = {"reference": reference, "text": text, "images": images}
    file = write(tmp_path / "sets.jsonl", [row, row])
    assert score(loop, file, "--images", loop.pictures, "--out", tmp_path / "out.jsonl").code == 0
    first, second = lines(tmp_path / "out.jsonl")
    assert (first["id"], second["id"]) == ("1", "2")
    assert first["score"] == second["score"]


@pytest.mark.xdist_group("scored release")
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"reference": "a", "text": "is red"}, "line 1: the key 'images' is missing"),
        ({"reference": "a", "text": " ", "images": ["b"]}, "line 1: text: is empty"),
        ({"reference": "a", "text": "is red", "images": []}, "line 1: images: names no image"),
        ({"reference": "a", "text": "is red", "images": ["b"], "k": 1}, "unknown key 'k'"),
    ],
)
def test_wrong_lines(loop: Loop, tmp_path: Path, row: dict[str, object], message: str) -> None:
    file = write(tmp_path / "sets.jsonl", [row])
    result = score(loop, file, "--images", loop.pictures, "--out", tmp_path / "out.jsonl")
    assert_refused(result, message)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.xdist_group("scored release")
def test_a_file_needs_out_and_a_release_refuses_it(loop: Loop, tmp_path: Path) -> None:
    file = write(tmp_path / "sets.jsonl", [])
    assert_refused(score(loop, file), "name the file for scores with --out")
    assert_refused(score(loop, loop.release, "--out", tmp_path / "x"), "--out: is for a file")


IMAGES = [f"i{n}" for n in range(8)]
images = st.sampled_from(IMAGES)
some_sets = st.lists(
    st.tuples(
        images, st.sampled_from(["red", "Is RED.", "has dots"]), st.lists(images, max_size=5)
    ),
    max_size=6,
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> FeatureCache:
    """The tokens of eight pictures in full precision."""
    folder = tmp_path_factory.mktemp("scoring")
    filled = FeatureCache.open(folder / "cache", SmallEncoder(), torch.float32)
    fill(filled, draw_images(folder / "images", len(IMAGES)))
    return filled


@torch.no_grad()
def reference_scores(
    sets: Sequence[ReleasedSet], available: set[str], pooling: Pooling, cache: FeatureCache
) -> SetScores:
    """One query and one image at a time, in plain Python."""
    encoder = SmallEncoder()
    scored = SetScores([], [], [], [])
    for released in sets:
        scored.missing.extend({released.reference, *released.images} - available)
        scores = []
        for image in released.images:
            if released.reference in available and image in available:
                text = released.text.lower().rstrip(".")
                query = encoder.compose(cache.tokens([released.reference]), [text])[0].tolist()
                vectors = encoder.gallery(cache.tokens([image]))[0].tolist()
                products = [
                    sum(q * v for q, v in zip(query, vector, strict=True)) for vector in vectors
                ]
                scores.append(max(products) if pooling == "max" else sum(products) / len(products))
                scored.images.append((released.set_id, image, scores[-1]))
        if scores and len(scores) == len(released.images):
            scored.sets.append((released.set_id, sum(scores) / len(scores)))
        else:
            scored.unscored.append(released.set_id)
    return SetScores(scored.images, scored.sets, sorted(set(scored.missing)), scored.unscored)


@given(some_sets, st.sets(images), st.sampled_from(get_args(Pooling)))
def test_scores_equal_those_of_one_image_at_a_time(
    cache: FeatureCache,
    drawn_sets: list[tuple[str, str, list[str]]],
    available: set[str],
    pooling: Pooling,
) -> None:
    sets = [
        ReleasedSet(f"s{n}", "q", reference, text, tuple(dict.fromkeys(members)))
        for n, (reference, text, members) in enumerate(drawn_sets)
    ]
    inference = Inference(SmallEncoder(), cache, Distributed(CPU))
    fast = score_sets(sets, available, pooling, inference)
    reference = reference_scores(sets, available, pooling, cache)
    for ours, theirs in ((fast.images, reference.images), (fast.sets, reference.sets)):
        assert [row[:-1] for row in ours] == [row[:-1] for row in theirs]
        scores = [row[-1] for row in theirs]
        assert [row[-1] for row in ours] == pytest.approx(scores, abs=1e-5)
    assert (fast.missing, fast.unscored) == (reference.missing, reference.unscored)


SCORED = SetScores([("a.1", "i0", 0.5), ("a.1", "i1", 0.25)], [("a.1", 0.375)], ["i7"], ["b.1"])


def test_files_record_what_was_scored(tmp_path: Path) -> None:
    about = write_scores(tmp_path / "new" / "r.scores", "mine", SCORED, {"metric": "mine"})
    folder = tmp_path / "new" / "r.scores"
    assert earlier_scores(folder, "mine") == about
    assert are_complete(folder, about)
    assert about["missing_images"] == ["i7"]
    assert about["unscored_sets"] == ["b.1"]
    assert (about["n_sets"], about["n_scored"]) == (2, 1)
    read = {path.name: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}
    assert read == {
        "mine.parquet": [{"set_id": "a.1", "score": 0.375}],
        "mine.images.parquet": [
            {"set_id": "a.1", "image_id": "i0", "score": 0.5},
            {"set_id": "a.1", "image_id": "i1", "score": 0.25},
        ],
    }


def test_changed_or_missing_files_are_detected(tmp_path: Path) -> None:
    about = write_scores(tmp_path, "mine", SCORED, {"metric": "mine"})
    (tmp_path / "mine.images.parquet").write_bytes(b"other")
    assert not are_complete(tmp_path, about)
    assert are_complete(tmp_path, write_scores(tmp_path, "mine", SCORED, {"metric": "mine"}))
    (tmp_path / "mine.parquet").unlink()
    assert not are_complete(tmp_path, about)


def test_only_drafts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    drafts = [".m[1].json-7.draft", ".m[1].parquet-7.draft", ".m[1].images.parquet-7.draft"]
    other_files = [".m1.json-7.draft", ".mine.parquet-7.draft", "m1.parquet", ".m[1].json"]
    for name in drafts + other_files:
        (tmp_path / name).touch()
    write_scores(tmp_path, "m[1]", SCORED, {"metric": "m[1]"})
    ours = {"m[1].json", "m[1].parquet", "m[1].images.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == ours | set(other_files)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"metric": "other"}', "\x00"])
def test_foreign_json_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "mine.json").write_text(content)
    with pytest.raises(UnreadableInput, match=r"mine\.json: was not written by hsfiq score"):
        earlier_scores(tmp_path, "mine")


def test_foreign_scores_are_refused(tmp_path: Path) -> None:
    assert earlier_scores(tmp_path / "none", "mine") == {}
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(UnreadableInput, match=r"mine\.parquet: was not written by hsfiq score"):
        earlier_scores(tmp_path, "mine")
    (tmp_path / "mine.images.parquet").touch()  # as a killed scoring leaves them
    assert earlier_scores(tmp_path, "mine") == {}


def test_many_names_are_counted() -> None:
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few([str(n) for n in range(1004)]) == "0, 1, 2 and 1,001 more"
