"""BLIP-2 through LAVIS: its outputs, its trained and its frozen parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from lavis.models.blip2_models.blip2 import LayerNorm
from lavis.models.blip2_models.blip2_qformer import Blip2Qformer
from lavis.models.blip2_models.Qformer import BertLMHeadModel
from torch import Tensor, nn
from torch.nn.functional import normalize

from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, Architecture
from hsfiq.model.encoders.encoder import Encoder
from hsfiq.model.encoders.lavis import Blip2, from_files
from hsfiq.model.encoders.lavis_model import build_vit
from tests.lavis.small_blip2 import CLIP, TEXTS, WHOLE, loss, write_weights

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def test_shapes_of_inputs_and_outputs(blip2: Blip2, pixels: Tensor) -> None:
    encoder: Encoder = blip2
    tokens = encoder.image_tokens(pixels)
    assert tokens.shape == (4, *encoder.tokens_shape) == (4, 10, 24)
    assert encoder.compose(tokens, TEXTS).shape == (4, 256)
    assert encoder.gallery(tokens).shape == (4, 32, 256)
    assert encoder.preprocessing.size == 42


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_vector_has_length_one(blip2: Blip2, pixels: Tensor, dtype: torch.dtype) -> None:
    tokens = blip2.image_tokens(pixels).to(dtype)
    exact = [blip2.compose(tokens, TEXTS), blip2.gallery(tokens)]
    with torch.autocast("cpu", torch.bfloat16):
        cast = [blip2.compose(tokens, TEXTS), blip2.gallery(tokens)]
    for vectors, cast_vectors in zip(exact, cast, strict=True):
        assert vectors.dtype == cast_vectors.dtype == torch.float32
        assert (vectors.norm(dim=-1) - 1).abs().max() < 1e-5
        assert (cast_vectors.norm(dim=-1) - 1).abs().max() < 1e-5
        assert (vectors * cast_vectors).sum(dim=-1).min() > 0.99


def test_tokens_depend_only_on_the_image_encoder(blip2: Blip2, pixels: Tensor) -> None:
    blip2.train()
    with torch.autocast("cpu", torch.bfloat16):
        tokens = blip2.image_tokens(pixels)
    assert not tokens.requires_grad
    assert not any(module.training for module in blip2.lavis.visual_encoder.modules())
    assert torch.equal(tokens, blip2.lavis.visual_encoder(pixels))


@torch.no_grad()
def test_cached_tokens_need_no_image_encoder(blip2: Blip2, pixels: Tensor) -> None:
    tokens = blip2.image_tokens(pixels)
    texts = ["is red"] * len(tokens)
    query, gallery = blip2.compose(tokens, texts), blip2.gallery(tokens)
    for module in blip2.image_modules():
        module.to("meta")
    assert blip2.compose(tokens, texts).equal(query)
    assert blip2.gallery(tokens).equal(gallery)


def test_the_text_changes_the_query_and_padding_does_not(blip2: Blip2, pixels: Tensor) -> None:
    tokens = blip2.image_tokens(pixels[:1])
    red, blue = (blip2.compose(tokens, [text]) for text in ("is red", "is blue"))
    assert (red - blue).abs().max() > 1e-4
    padded = blip2.compose(tokens.expand(2, -1, -1), ["is red", " ".join(["blue"] * 30)])
    assert torch.allclose(padded[:1], red, atol=1e-6)


def test_a_text_is_truncated_to_32_words(blip2: Blip2, pixels: Tensor) -> None:
    tokens = blip2.image_tokens(pixels[:2])
    long = " ".join(["red"] * 30)
    queries = blip2.compose(tokens[:1].expand(2, -1, -1), [long, f"{long} blue blue"])
    assert torch.equal(queries[0], queries[1])


def test_a_batch_equals_its_images_one_by_one(blip2: Blip2, pixels: Tensor) -> None:
    tokens = blip2.image_tokens(pixels)
    queries, images = blip2.compose(tokens, TEXTS), blip2.gallery(tokens)
    for row, text in enumerate(TEXTS):
        single = blip2.image_tokens(pixels[row : row + 1])
        assert torch.allclose(single[0], tokens[row], atol=1e-5)
        assert torch.allclose(blip2.compose(single, [text])[0], queries[row], atol=1e-5)
        assert torch.allclose(blip2.gallery(single)[0], images[row], atol=1e-5)


def test_the_numbers_of_texts_and_references_must_be_equal(blip2: Blip2, pixels: Tensor) -> None:
    with pytest.raises(ValueError, match="4 references, but 2 texts"):
        blip2.compose(blip2.image_tokens(pixels), TEXTS[:2])


class TheirBlip2(Blip2Qformer):
    """LAVIS' own model, which finds `bert-base-uncased` in the working folder."""

    architecture: Architecture

    def init_vision_encoder(self, *_: object) -> tuple[nn.Module, nn.Module]:
        vit = build_vit(self.architecture.vit)
        return vit, LayerNorm(vit.num_features)


@pytest.fixture
def theirs(
    architecture: Architecture, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> Blip2Qformer:
    """The same files, read by LAVIS."""
    monkeypatch.chdir(weights)
    monkeypatch.setattr(TheirBlip2, "architecture", architecture, raising=False)
    state = torch.load(weights / architecture.checkpoint)["model"]
    bert = {n.removeprefix("Qformer."): t for n, t in state.items() if n.startswith("Qformer.")}
    for name in ("word_embeddings.weight", "decoder.weight", "decoder.bias", "predictions.bias"):
        bert.update({n: t[:29] for n, t in bert.items() if n.endswith(name)})  # without [DEC]
    torch.save(bert, weights / "bert-base-uncased" / "pytorch_model.bin")
    model = TheirBlip2()
    model.visual_encoder.load_state_dict(torch.load(weights / architecture.vit_file), strict=False)
    model.load_from_pretrained(str(weights / architecture.checkpoint))
    return model.eval()


def test_the_gallery_is_lavis_image_features(
    blip2: Blip2, theirs: Blip2Qformer, pixels: Tensor
) -> None:
    features = theirs.extract_features({"image": pixels}, mode="image")
    ours = blip2.gallery(blip2.image_tokens(pixels))
    assert torch.allclose(ours, features.image_embeds_proj, atol=1e-6)


def test_the_query_is_the_mean_of_lavis_multimodal_features(
    blip2: Blip2, theirs: Blip2Qformer, pixels: Tensor
) -> None:
    samples = {"image": pixels, "text_input": TEXTS}
    features = theirs.extract_features(samples, mode="multimodal").multimodal_embeds
    expected = normalize(theirs.text_proj(features).mean(dim=1), dim=-1)
    assert torch.allclose(blip2.compose(blip2.image_tokens(pixels), TEXTS), expected, atol=1e-6)


def test_lavis_reads_the_complete_state(blip2: Blip2, theirs: Blip2Qformer) -> None:
    ours = blip2.lavis.state_dict()
    assert isinstance(theirs.Qformer, BertLMHeadModel)
    assert ours.keys() == theirs.state_dict().keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.state_dict().items())


def trained(blip2: Blip2) -> dict[str, nn.Parameter]:
    return {name: p for name, p in blip2.named_parameters() if p.requires_grad}


def test_the_gradient_reaches_exactly_what_is_trained(blip2: Blip2, pixels: Tensor) -> None:
    blip2.train()
    tokens = blip2.image_tokens(pixels)
    loss([tokens, tokens.roll(1, dims=0), tokens.roll(2, dims=0)], blip2, TEXTS).backward()
    reached = {name for name, p in blip2.named_parameters() if p.grad is not None and p.grad.any()}
    # A key's bias moves all scores of a softmax alike: its gradient is rounding at most.
    keys = {name for name in trained(blip2) if name.endswith("self.key.bias")}
    assert reached | keys == trained(blip2).keys()
    roots = {name.removeprefix("lavis.").split(".")[0] for name in reached}
    assert roots == {
        *("temperature", "ln_vision", "Qformer", "query_tokens", "vision_proj", "text_proj")
    }
    assert not any(name.startswith("lavis.Qformer.cls") for name in reached)


def test_what_was_trained_is_saved_and_loaded_by_its_names(
    architecture: Architecture, weights: Path, blip2: Blip2, pixels: Tensor
) -> None:
    tokens = blip2.image_tokens(pixels)
    before = {name: tensor.clone() for name, tensor in blip2.state_dict().items()}
    optimizer = torch.optim.AdamW(trained(blip2).values(), lr=1e-2)
    for shift in (1, 2, 3):
        optimizer.zero_grad()
        images = [tokens, tokens.roll(1, dims=0), tokens.roll(shift, dims=0)]
        loss(images, blip2, TEXTS).backward()
        optimizer.step()
    changed = {n for n, t in blip2.state_dict().items() if not torch.equal(t, before[n])}
    # The same parameters under a second name.
    aliases = {"lavis.temp", "lavis.Qformer.cls.predictions.decoder.weight"}
    assert changed - aliases == trained(blip2).keys()
    torch.save({name: p.detach() for name, p in trained(blip2).items()}, weights / "trained.pt")
    reloaded = from_files(architecture, weights).eval()
    reloaded.load_state_dict(torch.load(weights / "trained.pt", weights_only=True), strict=False)
    assert torch.equal(reloaded.compose(tokens, TEXTS), blip2.compose(tokens, TEXTS))
    assert torch.equal(reloaded.gallery(tokens), blip2.gallery(tokens))
    assert torch.equal(reloaded.temperature, blip2.temperature)


def test_the_frozen_id_is_the_image_encoders(
    architecture: Architecture,
    weights: Path,
    blip2: Blip2,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    known = blip2.frozen_id()
    same_encoder = from_files(architecture, weights)
    for parameter in trained(same_encoder).values():
        parameter.data.add_(0.1)
    assert same_encoder.frozen_id() == known
    other_folder = tmp_path_factory.mktemp("other")
    write_weights(other_folder, architecture, seed=2)
    assert from_files(architecture, other_folder).frozen_id() != known


def test_a_changed_weight_changes_the_frozen_id(architecture: Architecture, weights: Path) -> None:
    known = from_files(architecture, weights).frozen_id()
    tensors = torch.load(weights / architecture.vit_file)
    next(iter(tensors.values())).view(-1)[0] += 0.5
    torch.save(tensors, weights / architecture.vit_file)
    assert from_files(architecture, weights).frozen_id() != known


def test_a_checkpoint_with_its_image_encoder_needs_no_other_file(tmp_path: Path) -> None:
    write_weights(tmp_path, WHOLE, seed=1)
    complete = from_files(WHOLE, tmp_path)
    assert complete.tokens_shape == (10, 24)
    stored = torch.load(tmp_path / WHOLE.checkpoint)["model"]["visual_encoder.pos_embed"]
    assert torch.equal(complete.lavis.visual_encoder.pos_embed, stored)


def test_random_weights_are_drawn_from_the_generator() -> None:
    def draw(seed: int) -> Blip2:
        return Blip2.random(CLIP, torch.Generator().manual_seed(seed))

    before = torch.random.get_rng_state()
    first, second = draw(3), draw(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    states = first.state_dict(), second.state_dict()
    assert all(torch.equal(states[1][name], tensor) for name, tensor in states[0].items())
    # BERT-base with cross-attention in every second layer, as the published checkpoints have it.
    embeddings = first.lavis.Qformer.bert.embeddings.word_embeddings.weight
    assert embeddings.shape == (30_523, 768)
    assert first.compose(torch.zeros(1, 10, 24), ["is red"]).shape == (1, 256)


def test_the_published_shapes() -> None:
    shapes = {name: architecture.vit.tokens_shape for name, architecture in ARCHITECTURES.items()}
    assert shapes == {
        "blip2-vitL": (257, 1024),
        "blip2-vitg": (257, 1408),
        "blip2-coco": (677, 1408),
    }
