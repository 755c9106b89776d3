"""SPRC's published file, at a small size, on BLIP-2 through transformers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model import system_recipes
from hsfiq.model.encoders.hf_conversion import lavis_to_hf
from hsfiq.model.retrieval.import_weights import import_weights
from hsfiq.model.retrieval.loading import load_retriever, new_system
from hsfiq.model.retrieval.sprc import Sprc
from hsfiq.model.system_recipes import system_recipe
from tests.model.encoders.lavis_reference import (
    SMALL,
    VIT,
    Reference,
    read_reference,
    references,
    write_lavis_files,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


def hub_folder(weights: dict[str, Tensor], reference: Reference, folder: Path) -> Path:
    """BLIP-2 with these weights, in transformers' layout."""
    bert, words = reference.about["bert"], reference.about["words"]
    lavis_to_hf(SMALL, write_lavis_files(folder / "lavis", weights, bert, words), folder / "hf")
    return folder / "hf"


@pytest.fixture(scope="module")
def published(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hub_folder(reference.weights, reference, tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def trained(reference: Reference) -> dict[str, Tensor]:
    """What SPRC's training leaves: other weights of the Q-Former, its prompts, a temperature."""
    draw = torch.Generator().manual_seed(3)
    weights = {
        name: value
        if name.startswith(VIT) or not value.is_floating_point()
        else value + 0.05 * torch.randn(value.shape, generator=draw)
        for name, value in reference.weights.items()
    }
    prompts = torch.randn(1, *reference.weights["query_tokens"].shape[1:], generator=draw)
    return {**weights, "prompt_tokens": prompts, "temp": torch.tensor(0.03)}


@pytest.fixture(autouse=True)
def small_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(system_recipe("sprc-fashioniq"), size=SMALL.vit.size)
    monkeypatch.setitem(system_recipes.SYSTEM_RECIPES, small.name, small)


def sprc_file(tensors: dict[str, Tensor], folder: Path) -> Path:
    torch.save({"epoch": 9, "Blip2QformerCirAlignPrompt": tensors}, folder / "sprc_fiq.pt")
    return folder / "sprc_fiq.pt"


def test_it_ranks_as_sprc_with_its_weights(
    reference: Reference, published: Path, trained: dict[str, Tensor], tmp_path: Path
) -> None:
    out = tmp_path / "sprc"
    file = sprc_file(trained, tmp_path)
    saved = import_weights([file], out, dataset="fashioniq", weights=published)
    assert list(saved.about["files"]) == ["scorer"]
    system = load_retriever(out, published, CPU).retriever
    assert isinstance(system, Sprc)
    # The same weights, taken as those of a published BLIP-2.
    weights = {name: value for name, value in trained.items() if name != "prompt_tokens"}
    recipe = replace(system_recipe("sprc-fashioniq"), backbone="blip2-hf")
    expected = new_system(recipe, hub_folder(weights, reference, tmp_path))
    expected.begin(1)
    texts = reference.about["texts"]
    vectors = []
    for each in (system, expected):
        each.train(mode=False)
        tokens = references(each.image_tokens(reference.pixels), texts)
        vectors.append((each.compose(tokens, texts), each.gallery(tokens)))
    torch.testing.assert_close(*vectors)
    assert torch.equal(system.prompts, trained["prompt_tokens"][0])
    assert system.loss_temperature() == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prompt_tokens", "lacks prompt_tokens"),
        ("temp", "lacks temp"),
        ("text_proj.bias", "lacks text_projection.bias"),
        ("ln_vision.weight", "lacks vision_model.post_layernorm.weight"),
    ],
)
def test_a_missing_tensor_is_named(
    published: Path, trained: dict[str, Tensor], tmp_path: Path, name: str, message: str
) -> None:
    tensors = {key: value for key, value in trained.items() if key != name}
    file = sprc_file(tensors, tmp_path)
    with pytest.raises(UnreadableInput, match=message):
        import_weights([file], tmp_path / "out", dataset="fashioniq", weights=published)
    assert not (tmp_path / "out").exists()


def test_other_image_encoders(published: Path, trained: dict[str, Tensor], tmp_path: Path) -> None:
    changed = {**trained, f"{VIT}cls_token": trained[f"{VIT}cls_token"] + 1}
    file = sprc_file(changed, tmp_path)
    with pytest.raises(UnreadableInput, match=r"image encoder differs.*class_embedding"):
        import_weights([file], tmp_path / "out", dataset="fashioniq", weights=published)


def test_files_on_vit_l_are_refused_with_what_to_do(
    published: Path, trained: dict[str, Tensor], tmp_path: Path
) -> None:
    tensors = {name: value for name, value in trained.items() if not name.startswith(VIT)}
    file = sprc_file({**tensors, f"{VIT}ln_pre.weight": torch.zeros(24)}, tmp_path)
    with pytest.raises(UnreadableInput, match=r"on CLIP's ViT-L.*--set backbone=blip2-vitL"):
        import_weights([file], tmp_path / "out", dataset="fashioniq", weights=published)
