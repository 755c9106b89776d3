"""A small release of the drawn catalogue whose pairs three participants have judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsfiq.analysis.data.release import Release
from tests.analysis.drawn_releases import draw_release
from tests.analysis.studies import write_release

PREFERENCES = [
    *("question_id", "participant_id", "query_id", "set_1", "set_2", "system_1", "system_2"),
    *("score_1", "score_2", "preferred", "irrelevant"),
]
SETS = ["set_id", "question_id", "participant_id", "query_id", "system", "image_ids", "score"]


@pytest.fixture(scope="session")
def drawn_release() -> Release:
    """Three people answer the same four questions; references and texts are any."""
    release, _ = draw_release(3, 4, seed=3, overlap=3)
    targets = release.queries["target_id"].tolist()
    queries = release.queries.assign(
        reference_id=targets[1:] + targets[:1],
        text=["is red", "is blue", "is red and blue", "is red"],
        dataset="drawn",
    )
    return replace(
        release,
        preferences=release.preferences[PREFERENCES],
        sets=release.sets[SETS],
        queries=queries,
    )


@pytest.fixture
def release(drawn_release: Release, tmp_path: Path) -> Path:
    torch.set_num_threads(1)
    return write_release(drawn_release, tmp_path / "hp")
