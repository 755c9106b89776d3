"""LAVIS still computes the outputs in `tests/model/fixtures`, with which `blip2-hf` is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from hsfiq.model.encoders.hf import lavis_only, to_hf, to_lavis
from hsfiq.model.encoders.lavis import Blip2, from_files
from tests.lavis.make_reference import N_IMAGES, TEXTS, computed, trained, word_ids
from tests.model.encoders.lavis_reference import SMALL, Reference, read_reference, write_reference


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


@pytest.fixture
def lavis(tmp_path: Path) -> Blip2:
    return from_files(SMALL, write_reference(tmp_path / "lavis")).eval()


def test_lavis_computes_the_stored_outputs(reference: Reference, lavis: Blip2) -> None:
    outputs = computed(lavis, reference.pixels, reference.about["texts"])
    assert outputs.keys() == reference.outputs.keys()
    for name, kept in reference.outputs.items():
        assert outputs[name].shape == kept.shape
        # Processors add floats in different orders; values of `tokens` reach 6.
        assert torch.allclose(outputs[name], kept, atol=1e-5), name
    assert reference.about["texts"] == TEXTS
    assert len(reference.pixels) == N_IMAGES


def test_the_outputs_are_lavis_own_features(reference: Reference, lavis: Blip2) -> None:
    texts = [text for text in reference.about["texts"] if len(text) < 100]  # it cuts none
    rows = [reference.about["texts"].index(text) for text in texts]
    pixels = reference.pixels[torch.tensor(rows) % N_IMAGES]
    samples = {"image": pixels, "text_input": texts}
    fused = lavis.lavis.extract_features(samples, mode="multimodal").multimodal_embeds
    query = normalize(lavis.lavis.text_proj(fused).mean(dim=1), dim=-1)
    assert torch.allclose(query, reference.outputs["query"][rows], atol=1e-6)
    images = lavis.lavis.extract_features({"image": reference.pixels}, mode="image")
    assert torch.allclose(images.image_embeds_proj, reference.outputs["gallery"], atol=1e-6)


def test_lavis_reads_the_same_words(reference: Reference, lavis: Blip2) -> None:
    texts, ids = zip(*reference.about["tokenized"], strict=True)
    assert word_ids(lavis, list(texts)) == list(ids)
    assert max(len(token_ids) for token_ids in ids) == lavis.lavis.max_txt_len


def test_the_same_parameters_are_frozen_and_trained(reference: Reference, lavis: Blip2) -> None:
    assert lavis.frozen_id() == reference.about["frozen_id"]
    assert trained(lavis) == reference.about["trained"]
    assert lavis.lavis.ln_vision.eps == reference.about["ln_vision_eps"]


def test_lavis_state_round_trips_through_transformers_names(lavis: Blip2) -> None:
    state = lavis.lavis.state_dict()
    converted = to_lavis(to_hf(state, "here"), "there") | lavis_only(state)
    assert converted.keys() == state.keys()
    assert all(converted[name].equal(tensor) for name, tensor in state.items())
    lavis.lavis.load_state_dict(converted, strict=True)
