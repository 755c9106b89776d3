"""Image-text models of transformers trained as scorers: what is trained, and from where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import read
from hsfiq.model.encoders.dual import TrainedDual
from hsfiq.model.encoders.registry import build_encoder, build_retriever
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.model.scorer.run import run
from tests.model.encoders.test_zero_shot import TEXTS, blip, clip, saved, siglip
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL, Drawn

PIXELS = torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(4))


def built(folder: Path) -> TrainedDual:
    encoder = build_encoder(
        "hf", size=28, pad_ratio=1.25, folder=folder, generator=torch.Generator().manual_seed(1)
    )
    assert isinstance(encoder, TrainedDual)
    return encoder


@pytest.mark.parametrize("make", [clip, siglip, blip])
def test_training_starts_from_the_zero_shot_sum_and_changes_texts_alone(
    make: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    folder = saved(make, tmp_path / "model")
    encoder, untrained = built(folder), build_retriever(f"hf:{folder}")
    tokens = encoder.image_tokens(PIXELS)
    torch.testing.assert_close(encoder.compose(tokens, TEXTS), untrained.compose(tokens, TEXTS))
    torch.testing.assert_close(encoder.gallery(tokens), untrained.gallery(tokens))
    trained = {name for name, each in encoder.named_parameters() if each.requires_grad}
    text = {name for name in trained if ".text_model." in name or ".text_projection." in name}
    assert text
    assert trained - text == {
        "temperature",
        *(f"residual.{layer}.{kind}" for layer in (0, 2) for kind in ("weight", "bias")),
    }
    encoder.compose(tokens, TEXTS).sum().backward()
    without = {name for name, each in encoder.named_parameters() if each.grad is None}
    assert not without & (trained - {"temperature"})


def test_a_run_with_a_cache_equals_one_without(drawn: Drawn, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    recipe = replace(SMALL, encoder="hf", size=28, epochs=2, lr=1e-3)
    scorers = []
    for name, is_cached in (("cached", True), ("uncached", False)):
        paths = ScorerPaths(weights=folder, cache=tmp_path / "cache")
        out = tmp_path / name
        job = TrainingJob(drawn.first(26), out, paths, ONE_PROCESS, Callback(), cached=is_cached)
        run(recipe, job)
        scorers.append(load_scorer(out, folder, CPU).scorer.state_dict())
    start = built(folder).state_dict()
    assert any(not torch.equal(scorers[0][f"encoder.{name}"], start[name]) for name in start)
    for name in scorers[0]:
        torch.testing.assert_close(scorers[0][name], scorers[1][name], atol=2e-4, rtol=0)


@pytest.mark.parametrize("make", [clip, siglip, blip])
def test_lora_changes_images_only_once_it_is_trained(
    make: Callable[[], tuple[Any, Any]], tmp_path: Path
) -> None:
    folder = saved(make, tmp_path / "model")
    encoder = build_encoder(
        "hf-lora", size=28, pad_ratio=1.25, folder=folder, generator=torch.Generator()
    )
    untrained = built(folder)
    tokens, vectors = encoder.image_tokens(PIXELS), untrained.image_tokens(PIXELS)
    torch.testing.assert_close(encoder.gallery(tokens), untrained.gallery(vectors))
    torch.testing.assert_close(encoder.compose(tokens, TEXTS), untrained.compose(vectors, TEXTS))
    assert encoder.frozen_id() != untrained.frozen_id()
    parameters = dict(encoder.named_parameters())
    trained = {name for name, each in parameters.items() if each.requires_grad}
    adapters = {name for name in trained if ".lora_" in name}
    assert adapters
    assert len(trained) == len(adapters) + sum(p.requires_grad for p in untrained.parameters())
    encoder.gallery(tokens).sum().backward()
    assert all(parameters[name].grad is not None for name in adapters)


def test_lora_is_trained_against_the_other_targets_of_a_batch(drawn: Drawn, tmp_path: Path) -> None:
    folder = saved(clip, tmp_path / "model")
    paths = ScorerPaths(weights=folder, cache=tmp_path / "cache")
    brief = replace(SMALL, encoder="hf-lora", size=28, epochs=2, n_def=1, batch=8, lr=1e-3)
    recipe = replace(brief, strategy="in-batch", n_neg=None)
    job = TrainingJob(drawn.first(17), tmp_path / "run", paths, ONE_PROCESS, Callback())
    run(recipe, job)
    checkpoint = read(tmp_path / "run" / "last.json")
    epochs = checkpoint.about["progress"]["epochs"]
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    adapters = {
        name: each for name, each in checkpoint.tensors("scorer").items() if ".lora_B" in name
    }
    assert adapters
    assert all(each.abs().max() > 0 for each in adapters.values())  # it starts at 0
    scorer = load_scorer(checkpoint.path, folder, CPU).scorer
    for name, value in adapters.items():
        torch.testing.assert_close(scorer.state_dict()[name], value)


def test_the_folder_of_the_model_is_required() -> None:
    with pytest.raises(UnreadableInput, match=r"encoder=hf: needs the folder .* with --weights"):
        build_encoder("hf", size=28, pad_ratio=1.25, folder=None, generator=torch.Generator())
