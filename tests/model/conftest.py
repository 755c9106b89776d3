"""Fixtures of the training tests: data drawn once, a small CLIP4CIR, and one thread."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from hsfiq.model.data import drawn as draw
from hsfiq.model.image_tokens import FeatureCache, TokenSource
from hsfiq.model.retrieval import tiny
from hsfiq.model.scorer.loading import new_scorer
from tests.model.preference.helpers import Answered, make_answered
from tests.model.retrieval.helpers import train
from tests.model.scorer.helpers import CPU, SMALL, Drawn, Recorder

PRETRAINING = replace(tiny.STAGE, epochs=6)
"""A tenth of the epochs: tests train small backbones, and do not ask how well they retrieve."""


@pytest.fixture(autouse=True)
def _brief_pretraining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "STAGE", PRETRAINING)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Use one thread: small tensors gain nothing from more, and other tests run concurrently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be downloaded."""

    def refuse(*_: object) -> NoReturn:
        pytest.fail("this would have reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """Sixty training and 36 validation triplets of the drawn catalogue."""
    folder = tmp_path_factory.mktemp("drawn")
    data = draw(folder / "pictures", seed=7, per_category=40, n=120, rule="corpus")
    return Drawn(data, folder / "pictures", folder / "cache")


@pytest.fixture(scope="session")
def tokens(drawn: Drawn) -> TokenSource:
    """The tokens of its images."""
    cache = FeatureCache.open(drawn.cache, new_scorer(SMALL, None).encoder)
    cache.fill(drawn.data.images, batch=32, device=CPU, workers=1)
    return cache


@pytest.fixture(scope="session")
def answered(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Answered:
    """A release with a third of its triplets held out, and a scorer to retrain."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 80)
        return make_answered(tmp_path_factory.mktemp("answered"), drawn)


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "STAGE", PRETRAINING)
        train(drawn, out, callback=recorder)
    losses.extend(recorder.losses)
    return out
