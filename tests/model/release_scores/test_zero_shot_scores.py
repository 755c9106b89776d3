"""Scoring a release with models that were not trained here; docs/encoders.md is followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.model.encoders.test_zero_shot import clip, saved
from tests.model.release_scores.scored_release import Loop, about, assert_refused, score, set_scores

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.xdist_group("scored release")]

DOCS = Path(__file__).parents[3] / "docs" / "encoders.md"


def test_a_model_of_transformers_scores_a_release(
    loop: Loop, release: Path, tmp_path: Path
) -> None:
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
    assert_refused(unknown, "no installed encoder is called colors; there are: colour-words, hf")
