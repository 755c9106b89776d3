"""LAVIS' BLIP-2 as the backbone of a retrieval system."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hsfiq.model.encoders import lavis
from hsfiq.model.encoders.lavis import Blip2
from hsfiq.model.retrieval.blip2 import through_lavis
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.system import Batch
from hsfiq.model.system_recipes import system_recipe
from tests.lavis.small_blip2 import BERT, TEXTS
from tests.model.retrieval.text_pass import prompted_state


@torch.no_grad()
def test_with_an_image_the_passes_equal_the_library(blip2: Blip2, pixels: torch.Tensor) -> None:
    backbone = through_lavis(blip2).eval()
    tokens = backbone.image_tokens(pixels)
    ids, present = backbone.word_ids(TEXTS)
    mask = torch.cat([present.new_ones(len(TEXTS), 32), present], dim=1)
    queries = backbone.query_tokens.expand(len(TEXTS), -1, -1)
    fused = blip2._states(tokens, input_ids=ids, attention_mask=mask)
    assert torch.allclose(backbone.read_both(queries, tokens, TEXTS), fused, atol=1e-6)
    assert torch.allclose(backbone.read_image(tokens), blip2._states(tokens), atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("text_first", [False, True])
def test_without_an_image_the_pass_equals_a_literal_one(blip2: Blip2, text_first: bool) -> None:
    backbone = through_lavis(blip2).eval()
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randn(len(TEXTS), 3, BERT["hidden_size"], generator=generator)
    together = backbone.read_prompted(prompts, TEXTS, text_first=text_first)
    weights = blip2.lavis.state_dict()
    for row, text in enumerate(TEXTS):
        ids = blip2.lavis.tokenizer(text).input_ids
        literal = prompted_state(weights, BERT, prompts[row], ids, text_first=text_first)
        assert torch.allclose(together[row], literal, atol=1e-5), text


@pytest.mark.parametrize("name", ["sprc-fashioniq", "mapnet-fashioniq"])
def test_a_systems_gradients_and_weights(
    name: str, blip2: Blip2, weights: Path, pixels: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lavis, "load", lambda *_: blip2)
    system = new_system(system_recipe(name).with_values({"size": "42"}), weights)
    system.begin(1)
    system.before_training()
    tokens = system.image_tokens(pixels)
    batch = Batch(TEXTS, TEXTS, TEXTS, references=tokens, targets=tokens.flip(0))
    sum(system.losses(batch).terms.values()).backward()  # type: ignore[union-attr]
    reached = {n for n, p in system.named_parameters() if p.grad is not None and p.grad.any()}
    assert {"query_tokens", "ln_vision.weight", "vision_proj.weight", "text_proj.weight"} <= {
        name.removeprefix("backbone.encoder.lavis.") for name in reached
    }
    frozen = ("visual_encoder.", "itm_head.", "Qformer.cls.", "temp")
    assert not any(
        name.startswith(tuple(f"backbone.encoder.lavis.{f}" for f in frozen)) for name in reached
    )
    stored = system.stored_weights()
    assert reached <= set(stored)
    pointers = [tensor.data_ptr() for tensor in stored.values() if tensor.numel()]
    assert len(set(pointers)) == len(pointers)  # as a file of tensors needs
