"""A trained scorer and a simulated release to score."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from hsfiq.demo.study import database_url
from tests.model.release_scores.scored_release import Loop, score
from tests.model.scorer.helpers import Drawn, hsfiq, options


@pytest.fixture(scope="session")
def loop(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Loop:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("loop")
    brief = ("--set", "epochs=2", "--set", "n_def=1")
    for name, seed in (("run", "7"), ("other", "8")):
        assert hsfiq(*options(drawn, folder / name, *brief, "--set", f"seed={seed}")).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 80)
        assert hsfiq("demo", "--answers", "50", "--dir", folder / "demo").code == 0
    url = database_url(folder / "demo")
    release = folder / "released" / "hp"
    assert hsfiq("export", "--release", "hp", "--out", release, "--database", url).code == 0
    return Loop(
        folder / "run", folder / "other", release, folder / "demo" / "images", folder / "cache"
    )


@pytest.fixture(scope="session")
def scored(loop: Loop) -> Path:
    """The folder of the scores of a complete release."""
    assert score(loop, loop.release, "--images", loop.pictures).code == 0
    return loop.release.with_name("hp.scores")


@pytest.fixture
def release(loop: Loop, tmp_path: Path) -> Path:
    """A copy of the release without scores, for one test."""
    return shutil.copytree(loop.release, tmp_path / "hp")
