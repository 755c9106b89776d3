"""A small CLIP4CIR, trained once for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.model.retrieval.helpers import train
from tests.model.training.helpers import Drawn, Recorder


@pytest.fixture(scope="session")
def losses() -> list[float]:
    """The losses of `clip4cir`, by step."""
    return []


@pytest.fixture(scope="session")
def clip4cir(drawn: Drawn, losses: list[float], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was not interrupted."""
    torch.set_num_threads(1)
    recorder = Recorder()
    out = tmp_path_factory.mktemp("clip4cir") / "run"
    train(drawn, out, callback=recorder)
    losses.extend(recorder.losses)
    return out
