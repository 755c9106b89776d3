"""Searches under kill -9 of the app and a retriever that is stopped, on a small scale."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import searching, soak_sessions
from benchmarks.serving import Place
from benchmarks.soak_sessions import soak
from hsfiq.live.protocol import Search
from tests.drawn_retriever import DrawnRetriever

IMAGES = 100


class RandomRetriever(DrawnRetriever):
    """Lists random images, in this process."""

    def ranked(self, search: Search, k: int) -> dict[str, Any]:
        images = Random(str(search.turns)).sample(self.image_ids, k)
        targets = [{"image_id": target, "rank": 1, "ties": 0} for target in search.targets]
        return {"image_ids": images, "scores": [0.0] * k, "targets": targets}

    def kill(self) -> None:
        self.stop()


@pytest.mark.usefixtures("forked_servers")
@pytest.mark.parametrize("n_systems", [1, 2])
def test_nothing_acknowledged_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_systems: int
) -> None:
    monkeypatch.setattr(searching, "IMAGES", IMAGES)
    monkeypatch.setattr(soak_sessions, "LONGEST", 0.6)
    names = [str(number) for number in range(IMAGES)]
    retrievers = [RandomRetriever(names) for _ in range(n_systems)]
    result = soak(Place(tmp_path), 2, seed=7, retrievers=retrievers, people=3)
    assert result["acknowledged"] > 0
    assert (result["lost"], result["duplicated"], result["kills"]) == (0, 0, 2)
    assert result["half_turns"] == 0
    opinions = result["cases"][-1]
    assert 0 < opinions["acknowledged"] <= opinions["stored"]
    # What is stored beyond that was saved, but the kill came before the acknowledgement.
    assert 0 <= result["stored"] - result["acknowledged"] <= 3 * result["kills"]
