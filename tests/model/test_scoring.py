"""Scoring sets whose images are partly there, against one image at a time; reading and writing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.errors import UnreadableInput
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.scorer import Scorer
from hsfiq.model.scoring.release_scores import (
    Scored,
    is_whole,
    said_before,
    score_sets,
    write_scores,
)
from hsfiq.releases.reader import ReleasedSet
from hsfiq.text import first_few
from tests.model.encoders.small_encoder import CPU, SmallEncoder, draw_images, fill

pytestmark = pytest.mark.usefixtures("one_thread")

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
    """The tokens of eight pictures, as exact as they are."""
    folder = tmp_path_factory.mktemp("scoring")
    filled = FeatureCache.open(folder / "cache", SmallEncoder(), torch.float32)
    fill(filled, draw_images(folder / "images", len(IMAGES)))
    return filled


# ---------------------------------------------------------------------------------------- scoring


@torch.no_grad()
def literal(
    sets: Sequence[ReleasedSet], there: set[str], pooling: Pooling, cache: FeatureCache
) -> Scored:
    """A query and an image at a time, in Python's own numbers."""
    encoder = SmallEncoder()
    scored = Scored([], [], [], [])
    for one in sets:
        scored.missing.extend({one.reference, *one.images} - there)
        scores = []
        for image in one.images:
            if one.reference in there and image in there:
                text = one.text.lower().rstrip(".") + (" " if one.text.endswith(".") else "")
                query = encoder.query(cache.tokens([one.reference]), [text.strip()])[0].tolist()
                vectors = encoder.gallery(cache.tokens([image]))[0].tolist()
                products = [sum(q * v for q, v in zip(query, it, strict=True)) for it in vectors]
                scores.append(max(products) if pooling == "max" else sum(products) / len(products))
                scored.images.append((one.set_id, image, scores[-1]))
        if scores and len(scores) == len(one.images):
            scored.sets.append((one.set_id, sum(scores) / len(scores)))
        else:
            scored.unscored.append(one.set_id)
    return Scored(scored.images, scored.sets, sorted(set(scored.missing)), scored.unscored)


@given(some_sets, st.sets(images), st.sampled_from(get_args(Pooling)))
def test_scores_are_those_of_one_image_at_a_time(
    cache: FeatureCache,
    drawn_sets: list[tuple[str, str, list[str]]],
    there: set[str],
    pooling: Pooling,
) -> None:
    sets = [
        ReleasedSet(f"s{n}", "q", reference, text, tuple(dict.fromkeys(members)))
        for n, (reference, text, members) in enumerate(drawn_sets)
    ]
    inference = Inference(Scorer(SmallEncoder(), pooling), cache, Distributed(CPU), torch.float32)
    ours, theirs = (
        score_sets(sets, there, pooling, inference),
        literal(sets, there, pooling, cache),
    )
    assert [it[:-1] for it in ours.images] == [it[:-1] for it in theirs.images]
    assert [it[-1] for it in ours.images] == pytest.approx(
        [it[-1] for it in theirs.images], abs=1e-5
    )
    assert [it[0] for it in ours.sets] == [it[0] for it in theirs.sets]
    assert [it[1] for it in ours.sets] == pytest.approx([it[1] for it in theirs.sets], abs=1e-5)
    assert (ours.missing, ours.unscored) == (theirs.missing, theirs.unscored)


# ---------------------------------------------------------------------------------------- writing

SCORED = Scored([("a.1", "i0", 0.5), ("a.1", "i1", 0.25)], [("a.1", 0.375)], ["i7"], ["b.1"])


def test_files_say_what_was_scored(tmp_path: Path) -> None:
    said = write_scores(tmp_path / "new" / "r.scores", "mine", SCORED, {"metric": "mine"})
    folder = tmp_path / "new" / "r.scores"
    assert said_before(folder, "mine") == said
    assert is_whole(folder, said)
    assert said["missing_images"] == ["i7"]
    assert said["unscored_sets"] == ["b.1"]
    assert (said["n_sets"], said["n_scored"]) == (2, 1)
    read = {path.name: pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")}
    assert read == {
        "mine.parquet": [{"set_id": "a.1", "score": 0.375}],
        "mine.images.parquet": [
            {"set_id": "a.1", "image_id": "i0", "score": 0.5},
            {"set_id": "a.1", "image_id": "i1", "score": 0.25},
        ],
    }


def test_a_file_that_was_changed_or_taken_is_noticed(tmp_path: Path) -> None:
    said = write_scores(tmp_path, "mine", SCORED, {"metric": "mine"})
    (tmp_path / "mine.images.parquet").write_bytes(b"other")
    assert not is_whole(tmp_path, said)
    assert is_whole(tmp_path, write_scores(tmp_path, "mine", SCORED, {"metric": "mine"}))
    (tmp_path / "mine.parquet").unlink()
    assert not is_whole(tmp_path, said)


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    left = [".m[1].json-7.draft", ".m[1].parquet-7.draft", ".m[1].images.parquet-7.draft"]
    others = [".m1.json-7.draft", ".mine.parquet-7.draft", "m1.parquet", ".m[1].json"]
    for name in left + others:
        (tmp_path / name).touch()
    write_scores(tmp_path, "m[1]", SCORED, {"metric": "m[1]"})
    ours = {"m[1].json", "m[1].parquet", "m[1].images.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == ours | set(others)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"metric": "other"}', "\x00"])
def test_a_json_file_of_somebody_elses(tmp_path: Path, content: str) -> None:
    (tmp_path / "mine.json").write_text(content)
    with pytest.raises(UnreadableInput, match=r"mine\.json: is none that hsfiq score wrote"):
        said_before(tmp_path, "mine")


def test_scores_of_somebody_elses(tmp_path: Path) -> None:
    assert said_before(tmp_path / "none", "mine") == {}
    (tmp_path / "mine.parquet").touch()
    with pytest.raises(UnreadableInput, match=r"mine\.parquet: is none that hsfiq score wrote"):
        said_before(tmp_path, "mine")
    (tmp_path / "mine.images.parquet").touch()  # as a killed scoring leaves them
    assert said_before(tmp_path, "mine") == {}


def test_names_are_counted_where_there_are_many() -> None:
    assert first_few(["a", "b", "c"]) == "a, b, c"
    assert first_few([str(n) for n in range(1004)]) == "0, 1, 2 and 1,001 more"
