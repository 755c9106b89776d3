"""BLIP-2 as a backbone: equal to the library where it has an image, and to a literal twin else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.encoders.blip2_weights import EVA_G
from hsfiq.model.encoders.hf import Blip2Hf, config_of, meta_model
from hsfiq.model.encoders.hf_conversion import lavis_to_hf
from hsfiq.model.retrieval.blip2 import Blip2, through_transformers
from hsfiq.model.retrieval.loading import build_qformer, new_system
from hsfiq.model.retrieval.mapnet import Mapnet
from hsfiq.model.retrieval.sprc import Sprc
from hsfiq.model.retrieval.system import Batch, System
from hsfiq.model.system_recipes import SystemRecipe, system_recipe
from tests.model.encoders.lavis_reference import (
    SMALL,
    Reference,
    read_reference,
    references,
    write_reference,
)
from tests.model.retrieval.text_pass import prompted_state

pytestmark = pytest.mark.usefixtures("one_thread")

SIZE = {"backbone": "blip2-hf", "size": "42"}
BERT_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope="module")
def texts(reference: Reference) -> list[str]:
    listed: list[str] = reference.about["texts"]
    return listed


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blip2")
    lavis_to_hf(SMALL, write_reference(folder / "lavis"), folder / "hf")
    return folder / "hf"


@pytest.fixture
def blip2(weights: Path) -> Blip2:
    backbone = build_qformer(system_recipe("sprc-fashioniq").with_values(SIZE), weights)
    assert isinstance(backbone, Blip2)
    return backbone.eval()


@pytest.fixture
def tokens(blip2: Blip2, reference: Reference, texts: list[str]) -> Tensor:
    return references(blip2.image_tokens(reference.pixels), texts)


@torch.no_grad()
def test_image_passes_equal_the_library(blip2: Blip2, tokens: Tensor, texts: list[str]) -> None:
    encoder: Blip2Hf = blip2.encoder
    ids, present = blip2.word_ids(texts)
    mask = torch.cat([present.new_ones(len(texts), 32), present], dim=1)
    queries = blip2.query_tokens.expand(len(texts), -1, -1)
    fused = blip2.read_both(queries, tokens, texts)
    assert torch.allclose(fused, encoder._states(tokens, ids, mask), atol=1e-6)
    read = blip2.read_image(tokens)
    assert torch.allclose(read, encoder._states(tokens), atol=1e-6)
    assert (fused - read).abs().max() > 1e-2


@torch.no_grad()
@pytest.mark.parametrize("text_first", [False, True])
def test_without_an_image_the_pass_equals_a_literal_one(
    blip2: Blip2, reference: Reference, texts: list[str], text_first: bool
) -> None:
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randn(len(texts), 3, blip2.query_tokens.shape[1], generator=generator)
    together = blip2.read_prompted(prompts, texts, text_first=text_first)
    for row, text in enumerate(texts):
        ids = blip2._parts.tokenizer(text, truncation=True, max_length=32).input_ids
        literal = prompted_state(
            reference.weights, reference.about["bert"], prompts[row], ids, text_first=text_first
        )
        assert torch.allclose(together[row], literal, atol=1e-5), text


@torch.no_grad()
def test_low_precision_is_close(blip2: Blip2, tokens: Tensor, texts: list[str]) -> None:
    queries = blip2.query_tokens.expand(len(texts), -1, -1)
    exact = blip2.read_prompted(blip2.read_both(queries, tokens, texts), texts, text_first=False)
    with torch.autocast("cpu", torch.bfloat16):
        fused = blip2.read_both(queries, tokens, texts)
        low = blip2.read_prompted(fused, texts, text_first=False)
    assert torch.allclose(low.float(), exact, atol=0.1)


def small_system(name: str, weights: Path) -> System:
    system = new_system(system_recipe(name).with_values(SIZE), weights).eval()
    system.begin(1)
    system.before_training()
    return system


TEXTS = ["is red", "", "is blue", "red dress"]
"""Short: the small model has 40 positions, of which 32 are the prompts'."""


def batch_of(system: System, reference: Reference, texts: list[str]) -> Batch:
    tokens = system.image_tokens(reference.pixels)
    rows = references(tokens, texts)
    ids = [str(number) for number in range(len(texts))]
    return Batch(ids, texts, texts, references=rows, targets=rows.flip(0))


def names_with_gradients(module: nn.Module) -> set[str]:
    return {
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is not None and parameter.grad.abs().max() > 0
    }


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("sprc-fashioniq", ()),
        # No text's last state is read.
        ("mapnet-fashioniq", ("encoder.layer.2.intermediate.", "encoder.layer.2.output.")),
    ],
)
def test_gradients_reach_everything_but_the_image_encoder(
    name: str, unused: tuple[str, ...], weights: Path, reference: Reference
) -> None:
    system = small_system(name, weights)
    sum(system.losses(batch_of(system, reference, TEXTS)).terms.values()).backward()  # type: ignore[union-attr]
    trained = {
        name
        for name, _ in system.named_parameters()
        if not any(
            part in name
            for part in ("hf.vision_model.e", "itm_head", "encoder.temperature", *unused)
        )
    }
    missing = trained - names_with_gradients(system)
    assert all(name.endswith(("key.bias", "post_layernorm.bias")) for name in missing), missing
    assert names_with_gradients(system) <= trained
    assert any("vision_model.post_layernorm" in name for name in trained)
    stored = system.stored_weights()
    assert not any("vision_model.e" in name or "itm_head" in name for name in stored)
    assert trained <= set(stored)


@pytest.mark.parametrize("name", ["sprc-cirr", "mapnet-cirr"])
def test_a_system_and_its_checkpoint(
    name: str, weights: Path, reference: Reference, texts: list[str], tmp_path: Path
) -> None:
    first, second = (small_system(name, weights) for _ in range(2))
    batch = batch_of(first, reference, texts)
    with torch.no_grad():
        for parameter in first.parameters():
            if parameter.requires_grad:
                parameter.add_(0.01)
        before = first.compose(batch.references, texts)
        assert not torch.allclose(second.compose(batch.references, texts), before)
        checkpoints.save(tmp_path, "best", {}, {"scorer": first.stored_weights()})
        second.load(checkpoints.read(tmp_path))
        assert torch.equal(second.compose(batch.references, texts), before)
        assert torch.equal(first.gallery(batch.targets), second.gallery(batch.targets))
    assert before.norm(dim=1) == pytest.approx(torch.ones(len(texts)), abs=1e-5)


def test_unusable_sizes(weights: Path) -> None:
    stated = system_recipe("sprc-fashioniq")
    with pytest.raises(UnreadableInput, match="takes images of 42 pixels"):
        build_qformer(stated.with_values({"backbone": "blip2-hf"}), weights)
    with pytest.raises(UnreadableInput, match="does not support this backbone"):
        build_qformer(stated.with_values({"backbone": "blip-base"}), weights)
    recipe = system_recipe("mapnet-fashioniq").with_values({**SIZE, "n_queries": "33"})
    with pytest.raises(UnreadableInput, match="has 32 query tokens; set n_queries=32"):
        new_system(recipe, weights)


@pytest.mark.parametrize("kind", [Sprc, Mapnet])
def test_parameters_at_the_published_sizes(kind: type[System]) -> None:
    config = config_of(EVA_G, BERT_BASE, n_words=30523)
    hf = meta_model(config, "the test")
    recipe: SystemRecipe = system_recipe(f"{kind.name}-fashioniq")
    with torch.device("meta"):
        system = kind(through_transformers(Blip2Hf(hf, EVA_G, None)), recipe)  # type: ignore[arg-type, call-arg]
        system.train_all()
    trained = {
        name: parameter.numel()
        for name, parameter in system.named_parameters()
        if parameter.requires_grad
    }
    own = 32 * 768 + 1 if kind is Sprc else 0
    layers, width, hidden = 12, 768, 3072
    linear = width * width + width
    attention = 4 * linear + 2 * width
    cross = 2 * linear + 2 * (1408 * width + width) + 2 * width
    feed_forward = width * hidden + hidden + hidden * width + width + 2 * width
    qformer = layers * (attention + 2 * feed_forward) + layers // 2 * cross
    embeddings = (30523 + 512 + 32) * width + 2 * width
    projections = 2 * (width * 256 + 256)
    image_norm = 2 * 1408
    assert sum(trained.values()) == qformer + embeddings + projections + image_norm + own
    # BLIP-2's paper, section 3.1, counts 188 million in the Q-Former, query tokens included.
    assert (qformer + embeddings) / 1e6 == pytest.approx(186, abs=2.5)
