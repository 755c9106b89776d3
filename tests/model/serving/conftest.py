"""A small corpus with equal and unreadable images, and its ranker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hsfiq.model.ranker import CorpusRanker, folder_candidates, load_ranker
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths
from tests.model.scorer.helpers import CPU, Drawn


@pytest.fixture(scope="session")
def served_images(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty pictures, two copies of the fifth before and after it, and a file that is none."""
    folder = tmp_path_factory.mktemp("served")
    pictures = sorted(drawn.pictures.glob("*.jpg"))[:30]
    for picture in pictures:
        shutil.copy(picture, folder)
    for copy in ("a-copy", "z-copy"):
        shutil.copy(pictures[4], folder / f"{copy}.jpg")
    (folder / "broken.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="session")
def ranker(drawn: Drawn, clip4cir: Path, served_images: Path) -> CorpusRanker:
    candidates = folder_candidates(served_images)
    paths = ScorerPaths(clip4cir, candidates.folder, cache=drawn.cache)
    ranker, missing = load_ranker(paths, candidates, CPU, Callback(), max_batch=4)
    assert missing == ["broken"]
    return ranker
