"""Scoring a release with image-text models, untrained and trained; docs/encoders.md is followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import run
from tests.model.encoders.test_zero_shot import blip, clip, saved, siglip
from tests.model.release_scores.scored_release import Loop, about, assert_refused, score, set_scores
from tests.model.scorer.helpers import ONE_PROCESS, SMALL, Drawn, hsfiq

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]

DOCS = Path(__file__).parents[3] / "docs" / "encoders.md"


def test_model_of_transformers_scores_a_release(loop: Loop, release: Path, tmp_path: Path) -> None:
    model = saved(clip, tmp_path / "clip")
    by_name = {}
    for name, part in (("clip", ""), ("clip-text", "@text")):
        result = score(
            loop, release, "--images", loop.pictures, "--name", name,
            scorer=Path(f"hf:{model}{part}"),
        )  # fmt: skip
        assert result.code == 0, result.err
        by_name[name] = set_scores(tmp_path / "hp.scores", name)
        provenance = about(tmp_path / "hp.scores", name)
        assert provenance["recipe"] == {"name": f"hf:clip{part}", "pooling": "max"}
        assert provenance["data"] is None
    assert by_name["clip"].keys() == loop.sets.keys()
    assert by_name["clip"] != by_name["clip-text"]


@pytest.mark.parametrize("make", [clip, siglip, blip])
def test_a_trained_model_of_transformers_is_a_metric(
    make: Callable[[], tuple[Any, Any]], loop: Loop, release: Path, drawn: Drawn, tmp_path: Path
) -> None:
    model, trained = saved(make, tmp_path / "model"), tmp_path / "run"
    paths = ScorerPaths(weights=model, cache=tmp_path / "cache")
    recipe = replace(SMALL, encoder="hf", size=28, epochs=1, n_def=1, batch=8)
    run(recipe, TrainingJob(drawn.first(16), trained, paths, ONE_PROCESS, Callback()))
    options = ("--weights", model, "--images", loop.pictures, "--name", "trained")
    result = score(loop, release, *options, scorer=trained)
    assert result.code == 0, result.err
    assert about(tmp_path / "hp.scores", "trained")["recipe"]["encoder"] == "hf"
    figures = hsfiq("analyze", release, "--metric", "trained", "--resamples", "20", "--json").result
    assert figures["metrics"]["trained"]["spearman"]["n"] == len(loop.sets)
    other = saved(make, tmp_path / "other")
    (other / "vocab.txt").write_text("another\n")
    refused = score(loop, release, "--weights", other, *options[2:], scorer=trained)
    assert_refused(refused, "was trained on another image encoder than this hf")


def test_the_encoder_of_the_docs_is_found_and_scores(
    loop: Loop, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, settings = re.findall(r"```(?:python|toml)\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len([line for line in module.splitlines() if line.strip()]) <= 40
    (tmp_path / "their_encoder.py").write_text(module)
    added = tmp_path / "their_encoder-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: their-encoder\nVersion: 1.0\n")
    entry = settings.splitlines()[-1].replace('"', "")
    (added / "entry_points.txt").write_text(f"[hsfiq.encoders]\n{entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--images", loop.pictures, "--name", "colours")
    result = score(loop, release, *options, scorer=Path("colour-words:0.5"))
    assert result.code == 0, result.err
    assert len(set_scores(tmp_path / "hp.scores", "colours")) == len(loop.sets)
    unknown = score(loop, release, *options, scorer=Path("colors:0.5"))
    assert_refused(
        unknown, "no installed encoder is called colors; there are: colour-words, hf, openclip"
    )
