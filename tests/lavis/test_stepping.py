"""The two sides of the benchmark `train-step`, small: the same losses and gradients."""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from benchmarks.stepping import Stepper, cached, draw_images, encoded, largest_difference
from model.encoders.blip2 import Blip2
from model.features.cache import FeatureCache


def test_cached_and_encoded_steps_agree(blip2: Blip2, tmp_path: Path) -> None:
    files = draw_images(tmp_path / "images", batch=2, size=42, seed=1)
    cache = FeatureCache.open(tmp_path / "cache", blip2, torch.float16)
    cache.fill(files, batch=2, device=torch.device("cpu"), workers=1)
    texts = ["is red", "has no logo"]
    ours, theirs = Stepper(blip2, texts), Stepper(copy.deepcopy(blip2), texts)
    for seed in range(3):
        left = ours.step(cached(cache, 2), seed)[0]
        right = theirs.step(encoded(theirs.blip2, files, 2), seed)[0]
        assert left == right
        assert largest_difference(ours.gradients(), theirs.gradients()) == 0
    ours.step(cached(cache, 2), seed=8)
    assert largest_difference(ours.gradients(), theirs.gradients()) > 1e-3
