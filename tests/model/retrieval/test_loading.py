"""Backbones from files as their authors publish them, at a small size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.retrieval.blip import Blip, BlipCrossAttention
from hsfiq.model.retrieval.loading import filled_blip, filled_clip, load_towers
from hsfiq.model.retrieval.weights import POSITIONS
from tests.model.retrieval.blip_reference import BlipReference, empty_blip, read_blip_reference
from tests.model.retrieval.clip_reference import empty_clip, read_clip_reference


@pytest.fixture(scope="module")
def reference() -> BlipReference:
    return read_blip_reference()


def pretraining_file(weights: dict[str, Tensor], path: Path) -> Path:
    """A file as BLIP's pre-training writes it, with what retrieval has no use for."""
    besides = {
        "temp": torch.tensor(0.07),
        "itm_head.weight": torch.zeros(2, 16),
        "image_queue": torch.zeros(8, 4),
        "queue_ptr": torch.zeros(1, dtype=torch.long),
        "text_decoder.cls.predictions.bias": torch.zeros(3),
        **{f"visual_encoder_m.{i}": torch.zeros(1) for i in range(2)},
    }
    torch.save({"model": weights | besides, "epoch": 19}, path)
    return path


def test_blip_is_filled_from_file_of_pretraining(reference: BlipReference, tmp_path: Path) -> None:
    file = pretraining_file(reference.weights, tmp_path / "model_base.pth")
    for kind in (Blip, BlipCrossAttention):
        model = filled_blip(empty_blip(reference, kind), file, frozen_only=False)
        torch.testing.assert_close(
            model.text_vectors(reference.about["texts"]), reference.outputs["text"]
        )
        assert model.image_vectors(model.image_tokens(reference.pixels)).isfinite().all()


def test_only_frozen_weights_are_read_if_so_told(reference: BlipReference, tmp_path: Path) -> None:
    file = pretraining_file(reference.weights, tmp_path / "model_base.pth")
    whole = filled_blip(empty_blip(reference, Blip), file, frozen_only=False)
    part = empty_blip(reference, Blip)
    for name, value in part.state_dict().items():
        if not name.startswith(part.frozen):
            value.fill_(3)
    part = filled_blip(part, file, frozen_only=True)
    assert part.frozen_id() == whole.frozen_id()
    assert (part.text.proj.weight == 3).all()
    tokens = part.image_tokens(reference.pixels)
    torch.testing.assert_close(tokens, whole.image_tokens(reference.pixels))


def test_other_positions_are_interpolated(reference: BlipReference, tmp_path: Path) -> None:
    small = torch.randn(1, 1 + 3 * 3, 24, generator=torch.Generator().manual_seed(1))
    file = pretraining_file({**reference.weights, POSITIONS: small}, tmp_path / "model.pth")
    model = filled_blip(empty_blip(reference, Blip), file, frozen_only=False)
    positions = model.state_dict()["image.encoder.embeddings.position_embedding"]
    assert positions.shape == (1, 1 + 4 * 4, 24)
    assert torch.equal(positions[:, 0], small[:, 0])
    # transformers interpolates at each image what is interpolated here once.
    at_each_image = empty_blip(reference, Blip).image.encoder.embeddings
    at_each_image.position_embedding.data = small
    expected = at_each_image.interpolate_pos_encoding(positions, 32, 32)
    torch.testing.assert_close(positions, expected)


def test_positions_of_no_square_are_refused(reference: BlipReference, tmp_path: Path) -> None:
    weights = {**reference.weights, POSITIONS: torch.zeros(1, 8, 24)}
    file = pretraining_file(weights, tmp_path / "model.pth")
    with pytest.raises(UnreadableInput, match=r"pos_embed has the shape \[1, 8, 24\]"):
        filled_blip(empty_blip(reference, Blip), file, frozen_only=False)


def test_clip_is_filled_from_the_hubs_file(tmp_path: Path) -> None:
    reference = read_clip_reference()
    file = tmp_path / "open_clip_model.safetensors"
    save_file(reference.weights, file)
    model = filled_clip(empty_clip(reference), file)
    vectors = model.image_vectors(model.image_tokens(reference.pixels))
    torch.testing.assert_close(vectors, reference.image, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"visual_encoder.norm.bias": None}, "lacks visual_encoder.norm.bias"),
        ({"visual_encoder.extra": torch.zeros(1)}, "unknown visual_encoder.extra"),
        ({"text_proj.bias": torch.zeros(9)}, r"text_proj.bias has the shape \[9\], not \[8\]"),
        ({"text_proj.bias": torch.full((8,), torch.nan)}, "text_proj.bias has values that are"),
    ],
)
def test_each_wrong_tensor_is_named_as_in_the_file(
    reference: BlipReference, tmp_path: Path, change: dict[str, Tensor | None], message: str
) -> None:
    changed = {**reference.weights, **change}
    weights = {name: value for name, value in changed.items() if value is not None}
    file = pretraining_file(weights, tmp_path / "model.pth")
    with pytest.raises(UnreadableInput, match=message) as error:
        filled_blip(empty_blip(reference, BlipCrossAttention), file, frozen_only=False)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["clip-rn50x4", "blip-base", "blip-large"])
def test_missing_weights_are_named_with_their_address(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"lacks its published weights \(https://.*--weights"):
        load_towers(name, tmp_path, "published")
