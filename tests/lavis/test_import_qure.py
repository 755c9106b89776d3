"""QuRe's published file, at a small size: the state of LAVIS' model without a key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders import lavis
from hsfiq.model.encoders.blip2_weights import Architecture
from hsfiq.model.encoders.lavis import Blip2, from_files
from hsfiq.model.recipes import RECIPES, recipe
from hsfiq.model.retrieval.import_weights import import_weights
from hsfiq.model.scorer.loading import load_scorer
from tests.lavis.small_blip2 import TEXTS, VIT

CPU = torch.device("cpu")


@pytest.fixture
def published(
    architecture: Architecture, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Tensor]:
    """What QuRe's code saves after a training of the small model, whose files LAVIS finds."""
    monkeypatch.setattr(lavis, "load", lambda *_: from_files(architecture, weights))
    small = replace(recipe("qure-fashioniq"), size=architecture.vit.size)
    monkeypatch.setitem(RECIPES, small.name, small)
    draw = torch.Generator().manual_seed(3)
    state = from_files(architecture, weights).lavis.state_dict()
    trained = {
        name: value + 0.05 * torch.randn(value.shape, generator=draw)
        for name, value in state.items()
        if value.is_floating_point() and not name.startswith(VIT)
    }
    words = "Qformer.bert.embeddings.word_embeddings.weight"
    trained["Qformer.cls.predictions.decoder.weight"] = trained[words]  # one tensor in the model
    frozen = {name: value.half() for name, value in state.items() if name.startswith(VIT)}
    return {**state, **trained, **frozen}


def saved(state: dict[str, Tensor], folder: Path) -> Path:
    path = folder / "model.pth"
    torch.save(state, path)
    return path


@torch.no_grad()
def test_it_scores_as_qure_with_its_weights(
    blip2: Blip2, published: dict[str, Tensor], pixels: Tensor, tmp_path: Path
) -> None:
    file, out = saved(published, tmp_path), tmp_path / "qure"
    imported = import_weights([file], out, dataset="fashioniq", weights=None)
    loaded = load_scorer(out, None, CPU)
    blip2.lavis.load_state_dict(published)
    tokens = blip2.image_tokens(pixels)
    assert loaded.scorer.eval().encoder.compose(tokens, TEXTS).equal(blip2.compose(tokens, TEXTS))
    assert loaded.scorer.encoder.gallery(tokens).equal(blip2.gallery(tokens))
    assert loaded.scorer.encoder.temperature.equal(published["temp"])
    assert not any("visual_encoder" in name for name in imported.tensors("scorer"))
    assert "`model.pth`, SHA-1" in (out / "README.md").read_text()


def test_a_missing_tensor_is_named(published: dict[str, Tensor], tmp_path: Path) -> None:
    del published["text_proj.bias"]
    with pytest.raises(UnreadableInput, match=r"lacks text_proj\.bias"):
        import_weights(
            [saved(published, tmp_path)], tmp_path / "out", dataset="fashioniq", weights=None
        )
    assert not (tmp_path / "out").exists()


def test_another_image_encoder_is_refused(published: dict[str, Tensor], tmp_path: Path) -> None:
    name = next(name for name in published if name.startswith(VIT))
    file = saved({**published, name: published[name] + 1}, tmp_path)
    with pytest.raises(UnreadableInput, match="image encoder differs from LAVIS' published one"):
        import_weights([file], tmp_path / "out", dataset="fashioniq", weights=None)
