"""BLIP against BLIP's own code, and at its true sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.retrieval.blip import (
    BASE,
    LARGE,
    MAX_FUSED_TOKENS,
    MAX_FUSED_TOKENS_TRAINING,
    Blip,
    BlipCrossAttention,
    BlipSizes,
    build,
    sized,
    tokenizer_of,
)
from tests.model.retrieval.blip_reference import BlipReference, filled_blip, read_blip_reference

KINDS = (Blip, BlipCrossAttention)


@pytest.fixture(scope="module")
def reference() -> BlipReference:
    return read_blip_reference()


@pytest.fixture(scope="module")
def towers(reference: BlipReference) -> Blip:
    return filled_blip(reference, Blip)


@pytest.fixture(scope="module")
def cross(reference: BlipReference) -> BlipCrossAttention:
    return filled_blip(reference, BlipCrossAttention)


def read_images(reference: BlipReference, tokens: Tensor) -> Tensor:
    """The images that the texts read: [B, P, W]."""
    return tokens[torch.arange(len(reference.about["texts"])) % len(tokens)]


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_image_tokens_and_vectors_are_those_of_blips_code(
    reference: BlipReference, towers: Blip, cross: BlipCrossAttention
) -> None:
    for blip in (towers, cross):
        tokens = blip.image_tokens(reference.pixels)
        assert tokens.shape == (2, *blip.tokens_shape)
        expected = reference.outputs["tokens"][:, : blip.tokens_shape[0]]
        torch.testing.assert_close(tokens, expected, atol=1e-5, rtol=1e-5)
        vectors = blip.image_vectors(tokens)
        torch.testing.assert_close(vectors, reference.outputs["image"], atol=1e-5, rtol=1e-5)


def test_text_vectors_are_those_of_blips_code(
    reference: BlipReference, towers: Blip, cross: BlipCrossAttention
) -> None:
    texts = reference.about["texts"]
    for blip in (towers, cross):
        vectors = blip.text_vectors(texts)
        torch.testing.assert_close(vectors, reference.outputs["text"], atol=1e-5, rtol=1e-5)
    alone = towers.text_vectors(texts[:1])
    torch.testing.assert_close(alone, reference.outputs["text"][:1], atol=1e-5, rtol=1e-5)


def test_a_direction_acts_like_a_word_after_the_first_token(
    reference: BlipReference, towers: Blip, cross: BlipCrossAttention
) -> None:
    text = reference.about["texts"][0]
    for blip in (towers, cross):
        ids = blip.word_ids([f"red {text}", "red"], 512).input_ids  # [2, T]
        word = blip.text.encoder.get_submodule("embeddings.word_embeddings")(ids[0, 1])  # [H]
        directed = blip.text_vectors([text, ""], word)
        torch.testing.assert_close(directed, blip.text_vectors([f"red {text}", "red"]))
        assert blip.text_vectors(["red " * 100], word).isfinite().all()  # the text's end is cut


def test_fused_vectors_equal_blips(reference: BlipReference, cross: BlipCrossAttention) -> None:
    tokens = read_images(reference, cross.image_tokens(reference.pixels))
    vectors = cross.fused_vectors(tokens, reference.about["texts"])
    torch.testing.assert_close(vectors, reference.outputs["fused"], atol=1e-5, rtol=1e-5)


def test_tokens_may_have_half_precision(
    reference: BlipReference, cross: BlipCrossAttention
) -> None:
    tokens = cross.image_tokens(reference.pixels).half()
    vectors = cross.image_vectors(tokens)
    torch.testing.assert_close(vectors, reference.outputs["image"], atol=2e-2, rtol=2e-2)
    fused = cross.fused_vectors(read_images(reference, tokens), reference.about["texts"])
    torch.testing.assert_close(fused, reference.outputs["fused"], atol=2e-2, rtol=2e-2)


def test_token_ids_are_those_of_blips_code(reference: BlipReference, towers: Blip) -> None:
    for text, ids in reference.about["tokenized"]:
        assert towers.word_ids([text], 512).input_ids.tolist() == [ids]


def test_texts_are_cut_as_in_covr(reference: BlipReference, cross: BlipCrossAttention) -> None:
    tokens = cross.image_tokens(reference.pixels)[:1]
    word = "red "
    # Two tokens are the first and the last.
    for training, longest in ((True, MAX_FUSED_TOKENS_TRAINING), (False, MAX_FUSED_TOKENS)):
        blip = filled_blip(reference, BlipCrossAttention).eval()
        blip.training = training  # without dropout
        cut, longer, shorter = (
            blip.fused_vectors(tokens, [word * n]) for n in (longest - 2, longest, longest - 3)
        )
        torch.testing.assert_close(cut, longer)
        assert not torch.allclose(cut, shorter)


def test_gradients_reach_the_text_encoder_and_nothing_frozen(reference: BlipReference) -> None:
    for kind in KINDS:
        blip = filled_blip(reference, kind).train()
        tokens = read_images(reference, blip.image_tokens(reference.pixels))
        texts = reference.about["texts"]
        vectors = (
            blip.fused_vectors(tokens, texts)
            if isinstance(blip, BlipCrossAttention)
            else blip.text_vectors(texts)
        )
        (vectors - blip.image_vectors(tokens)).square().sum().backward()
        for name, parameter in blip.named_parameters():
            if name.startswith("image."):
                assert (parameter.requires_grad, parameter.grad) == (False, None), name
            else:
                assert parameter.grad.any(), name


def test_dropout_acts_on_texts_in_training_alone(reference: BlipReference) -> None:
    blip, texts = filled_blip(reference, Blip), reference.about["texts"]
    assert torch.equal(blip.text_vectors(texts), blip.text_vectors(texts))
    blip.train()
    assert not torch.equal(blip.text_vectors(texts), blip.text_vectors(texts))
    tokens = blip.image_tokens(reference.pixels)
    assert torch.equal(tokens, blip.image_tokens(reference.pixels))


def test_the_frozen_id_follows_the_image_encoder_alone(reference: BlipReference) -> None:
    blip = filled_blip(reference, Blip)
    first = blip.frozen_id()
    assert first == filled_blip(reference, Blip).frozen_id()
    assert first != filled_blip(reference, BlipCrossAttention).frozen_id()
    state = {name: value.clone() for name, value in blip.state_dict().items()}
    state["text.proj.weight"] += 1
    blip.load_state_dict(state)
    assert blip.frozen_id() == first
    state["image.encoder.post_layernorm.bias"] += 1
    blip.load_state_dict(state)
    assert blip.frozen_id() != first


def test_texts_and_images_are_as_many(reference: BlipReference, cross: BlipCrossAttention) -> None:
    tokens = cross.image_tokens(reference.pixels)
    with pytest.raises(ValueError, match="2 images, but 1 texts"):
        cross.fused_vectors(tokens, ["is red"])


def test_covr_sees_the_whole_image(reference: BlipReference) -> None:
    small, words = BlipSizes(**reference.about["sizes"]), reference.about["words"]
    for squeeze in (True, False):
        sizes = replace(small, squeeze=squeeze)
        assert sized(BlipCrossAttention, sizes, words, None).preprocessing.squeeze == squeeze
    assert (LARGE.squeeze, BASE.squeeze) == (True, False)


def test_the_true_sizes_have_the_known_numbers_of_parameters() -> None:
    # Image encoders: timm's vit_base_patch16_384 (86,859,496) and vit_large_patch16_384
    # (304,715,752) without their layers of 1,000 classes. Text: bert-base-uncased (109,482,240)
    # without its pooler and token types and with two words more, and cross-attention in BLIP-L.
    bert = 109_482_240 - (768**2 + 768) - 2 * 768 + 2 * 768
    cross = 12 * (2 * (768 * 768 + 768) + 2 * (768 * 1024 + 768) + 2 * 768)
    expected = {
        Blip: (86_859_496 - 769_000, bert),
        BlipCrossAttention: (304_715_752 - 1_025_000, bert + cross),
    }
    tokenizer = tokenizer_of(thirty_thousand_words())
    assert len(tokenizer) == 30_524
    for kind, sizes in ((Blip, BASE), (BlipCrossAttention, LARGE)):
        with torch.device("meta"):
            blip = kind(sizes, tokenizer)
        assert (n_parameters(blip.image.encoder), n_parameters(blip.text.encoder)) == expected[kind]
        assert n_parameters(blip.image.proj) == 256 * sizes.width + 256
        assert n_parameters(blip.text.proj) == 256 * 768 + 256
        assert blip.tokens_shape == ((1, 768) if kind is Blip else (577, 1024))


@pytest.mark.slow
def test_blip_large_from_nothing_tells_images_and_texts_apart() -> None:
    """At its true depth and width; a sixteenth of the patches takes a sixteenth of the time."""
    sizes = replace(LARGE, size=96)
    blip = sized(
        BlipCrossAttention, sizes, thirty_thousand_words(), torch.Generator().manual_seed(1)
    )
    pixels = torch.zeros(2, 3, 96, 96)
    pixels[0, 0], pixels[1, 2, :, 25:] = 2, 2
    with torch.no_grad():
        tokens = blip.image_tokens(pixels)
        image = blip.image_vectors(tokens)
        fused = blip.fused_vectors(tokens[[0, 1, 0]], ["w1", "w1", "w2"])
    assert tokens.shape == (2, 37, 1024)
    assert (image.shape, fused.shape) == ((2, 256), (3, 256))
    for first, second in (image[:2], fused[:2], fused[::2]):
        assert (first - second).norm() > 1e-3 * first.norm()


def test_the_same_seed_draws_the_same_weights(reference: BlipReference) -> None:
    sizes, words = BlipSizes(**reference.about["sizes"]), reference.about["words"]
    small = [
        sized(Blip, sizes, words, torch.Generator().manual_seed(seed)).state_dict()
        for seed in (3, 3, 4)
    ]
    assert all(torch.equal(small[0][name], small[1][name]) for name in small[0])
    name = "image.encoder.embeddings.patch_embedding.weight"
    assert not torch.equal(small[0][name], small[2][name])
    assert all(value.isfinite().all() for value in small[0].values())


def test_a_missing_vocabulary_is_named_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"https://huggingface.co/bert.*--weights"):
        build("blip-base", tmp_path, None, reads_images=False)


def thirty_thousand_words() -> list[str]:
    """As many words as BERT has."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return [*special, *(f"w{i}" for i in range(30_522 - len(special)))]
