"""BLIP-2 is trained, cached, resumed and loaded by the same loop as the small encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hsfiq.model.data import TrainingData, drawn
from hsfiq.model.encoders.blip2_weights import Architecture
from hsfiq.model.encoders.lavis import from_files
from hsfiq.model.image_tokens import EncodedTokens, FeatureCache, TokenSource
from hsfiq.model.recipes import Recipe, recipe
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback, RunFolder, Step, TensorBoard, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_parameters
from hsfiq.model.scorer.scorer import Scorer, trained_parameters
from hsfiq.model.scorer.training import Trainer

CPU = torch.device("cpu")
QURE = replace(
    recipe("qure-fashioniq"), epochs=4, n_def=2, batch=8, lr=1e-3, clip_norm=1.0, val_recall=(1, 5)
)


class Losses(Callback):
    """Records the loss of every step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def stepped(self, step: Step) -> None:
        self.values.append(step.loss)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return drawn(tmp_path_factory.mktemp("pictures"), seed=3, per_category=24, n=48, rule="targets")


def train(
    scorer: Scorer, data: TrainingData, tokens: TokenSource, out: Path, recipe: Recipe = QURE
) -> list[float]:
    losses = Losses()
    folder = RunFolder(out, {"recipe": recipe.to_json()}, {})
    job = TrainingJob(data, out, ScorerPaths(), Distributed(CPU), losses)
    Trainer(scorer, recipe, job, tokens, folder).train()
    return losses.values


def test_training_is_the_same_with_and_without_the_cache(
    data: TrainingData, architecture: Architecture, weights: Path, tmp_path: Path
) -> None:
    losses = []
    for mode in ("cached", "encoded"):
        encoder = from_files(architecture, weights)
        tokens: TokenSource = EncodedTokens(encoder, data.images, torch.float16, CPU)
        if mode == "cached":
            cache = FeatureCache.open(tmp_path / "cache", encoder, torch.float16)
            cache.fill(data.images, batch=8, device=CPU, workers=1)
            tokens = cache
        before = encoder.frozen_id()
        losses.append(train(Scorer(encoder, "max"), data, tokens, tmp_path / mode))
        encoder._frozen_id = None
        assert encoder.frozen_id() == before
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert losses[0][-1] != losses[0][0]


def test_a_stopped_run_resumes_and_its_checkpoint_loads(
    data: TrainingData, architecture: Architecture, weights: Path, tmp_path: Path
) -> None:
    encoder = from_files(architecture, weights)
    tokens = EncodedTokens(encoder, data.images, torch.float16, CPU)
    all_losses = train(Scorer(encoder, "max"), data, tokens, tmp_path / "whole")

    class Stop(Losses):
        def ended(self, epoch: dict[str, object]) -> None:
            if epoch["epoch"] == 2:
                raise KeyboardInterrupt

    folder = RunFolder(tmp_path / "stopped", {"recipe": QURE.to_json()}, {})
    job = TrainingJob(data, tmp_path / "stopped", ScorerPaths(), Distributed(CPU), Stop())
    stopped = Scorer(from_files(architecture, weights), "max")
    with pytest.raises(KeyboardInterrupt):
        Trainer(stopped, QURE, job, tokens, folder).train()
    resumed = Scorer(from_files(architecture, weights), "max")
    remaining = train(resumed, data, tokens, tmp_path / "stopped")
    n_steps = len(all_losses) // QURE.epochs
    assert remaining == pytest.approx(all_losses[2 * n_steps :], abs=1e-5)

    last = folder.last()
    assert last is not None
    fresh = Scorer(from_files(architecture, weights), "max")
    load_parameters(last, fresh)
    for name, parameter in trained_parameters(resumed).items():
        assert parameter.equal(trained_parameters(fresh)[name]), name


def test_tensorboard_works_in_this_environment(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "tensorboard")
    board.close()
