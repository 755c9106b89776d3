"""Small BLIP-2 models from files in the published layout, and no network."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from hsfiq.model.encoders.blip2_weights import Architecture
from hsfiq.model.encoders.lavis import Blip2, from_files
from tests.lavis.small_blip2 import CLIP, EVA, write_weights


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be downloaded."""

    def refuse(*_: object) -> NoReturn:
        pytest.fail("this would have reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Models this small are slower on two threads."""
    torch.set_num_threads(1)


@pytest.fixture(params=[CLIP, EVA], ids=["clip", "eva"])
def architecture(request: pytest.FixtureRequest) -> Architecture:
    """Each kind of image encoder in turn."""
    chosen: Architecture = request.param
    return chosen


@pytest.fixture
def weights(architecture: Architecture, tmp_path: Path) -> Path:
    """The folder of a small model's files."""
    write_weights(tmp_path, architecture, seed=1)
    return tmp_path


@pytest.fixture
def blip2(architecture: Architecture, weights: Path) -> Blip2:
    """A small model, in evaluation mode."""
    return from_files(architecture, weights).eval()


@pytest.fixture
def pixels(architecture: Architecture) -> torch.Tensor:
    """[4, 3, size, size]."""
    size = architecture.vit.size
    return torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(7))
