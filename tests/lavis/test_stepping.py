"""The two sides of the benchmark `train-step`, small: the same losses and gradients."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch

from benchmarks import stepping
from benchmarks.stepping import Stepper, cached, draw_images, encoded, relative_difference
from hsfiq.model.encoders.lavis import Blip2
from hsfiq.model.image_tokens import FeatureCache
from tests.lavis.small_blip2 import EVA


def test_cached_and_encoded_steps_agree(blip2: Blip2, tmp_path: Path) -> None:
    files = draw_images(tmp_path / "images", batch=2, size=42, seed=1)
    cache = FeatureCache.open(tmp_path / "cache", blip2, torch.float16)
    cache.fill(files, batch=2, device=torch.device("cpu"), workers=1)
    texts = ["is red", "has no logo"]
    ours, theirs = Stepper(blip2, texts), Stepper(copy.deepcopy(blip2), texts)
    for seed in range(3):
        cached_loss = ours.step(cached(cache, 2), seed)[0]
        right = theirs.step(encoded(theirs.blip2, files, 2), seed)[0]
        assert cached_loss == right
        assert relative_difference(ours.gradients(), theirs.gradients()) == 0
    ours.step(cached(cache, 2), seed=8)
    assert relative_difference(ours.gradients(), theirs.gradients()) > 0.1


def test_both_sides_from_one_model(
    blip2: Blip2,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(stepping, "random_blip2", lambda *_: blip2)
    stepping.main(tmp_path, "blip2-vitL", batch=2, seed=4, theirs=1, ours=2)
    result = json.loads(capsys.readouterr().out)
    assert result["ours"]["equal"]
    assert {side: len(result[side]["seconds"]) for side in result} == {"theirs": 1, "ours": 2}


def test_a_failure_on_one_side_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        stepping.fork(stepping.result_of, None, "ours")
    assert ended.value.code == 1


def test_all_weights_are_set() -> None:
    first, second = (stepping.random_blip2(EVA, seed=5).state_dict() for _ in range(2))
    for name, weight in first.items():
        assert torch.equal(weight, second[name])
        assert weight.is_floating_point() <= bool(weight.isfinite().all())
    spread = first["lavis.Qformer.bert.embeddings.word_embeddings.weight"].std()
    assert spread == pytest.approx(stepping.WEIGHT, rel=0.01)


def test_the_difference_is_relative_to_all_tensors() -> None:
    ours = {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([[1e-9]])}
    theirs = {"a": torch.tensor([3.0, 4.5]), "b": torch.tensor([[-1e-9]])}
    assert relative_difference(ours, ours) == 0
    assert relative_difference(ours, theirs) == pytest.approx(0.5 / (9 + 4.5**2) ** 0.5)
    assert relative_difference({"a": ours["a"]}, ours) == float("inf")
