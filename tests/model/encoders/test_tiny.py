"""The small encoder implements the protocol, and vectors depend only on their own inputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.encoder import Encoder, normalise
from hsfiq.model.encoders.registry import build_encoder
from hsfiq.model.encoders.tiny import MAX_WORDS, SIZE, Tiny, word_ids
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, trained_parameters

pytestmark = pytest.mark.usefixtures("one_thread")

texts = st.text("abc r'/-9", max_size=60).map(normalise)


def new_tiny(seed: int = 0) -> Tiny:
    return Tiny(torch.Generator().manual_seed(seed)).eval()


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    return new_tiny()


@pytest.fixture(scope="module")
def tokens(tiny: Tiny) -> Tensor:
    """Tokens of six images of noise: [6, P, W]."""
    pixels = torch.randn(6, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    return tiny.image_tokens(pixels)


def test_the_encoder_implements_the_protocol(tiny: Tiny, tokens: Tensor) -> None:
    encoder: Encoder = tiny  # which mypy looks at
    assert encoder.name == "tiny"
    assert tokens.shape == (6, *encoder.tokens_shape)
    assert not tokens.requires_grad
    query = encoder.compose(tokens, ["is red"] * 6)
    gallery = encoder.gallery(tokens)
    assert query.shape == (6, gallery.shape[2])
    assert gallery.shape[0] == 6
    assert encoder.temperature.item() == pytest.approx(0.07)
    assert (query.dtype, gallery.dtype) == (torch.float32, torch.float32)
    for vectors in (query, gallery):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]))


def test_build_encoder_knows_the_size() -> None:
    encoder = build_encoder(
        "tiny", size=SIZE, pad_ratio=1.5, folder=None, generator=torch.Generator()
    )
    assert encoder.preprocessing.pad_ratio == 1.5
    assert Tiny.preprocessing.pad_ratio == 1.25  # not everybody's
    with pytest.raises(UnreadableInput, match="size=224: encoder tiny takes images of 96 pixels;"):
        build_encoder("tiny", size=224, pad_ratio=1.5, folder=None, generator=torch.Generator())


@settings(max_examples=25)
@given(st.lists(texts, min_size=1, max_size=6))
def test_neither_padding_nor_other_queries_change_a_query(texts: list[str]) -> None:
    tiny = new_tiny()
    tokens = torch.randn(
        len(texts), *tiny.tokens_shape, generator=torch.Generator().manual_seed(len(texts))
    )
    with torch.no_grad():
        together = tiny.compose(tokens, texts)
        for i, text in enumerate(texts):
            torch.testing.assert_close(together[i], tiny.compose(tokens[i : i + 1], [text])[0])


def test_other_images_do_not_change_an_image(tiny: Tiny, tokens: Tensor) -> None:
    pixels = torch.randn(5, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(2))
    one_by_one = torch.cat([tiny.image_tokens(image[None]) for image in pixels])
    assert tiny.image_tokens(pixels).equal(one_by_one)  # the cache relies on it
    one_at_a_time = torch.cat([tiny.gallery(image_tokens[None]) for image_tokens in tokens])
    torch.testing.assert_close(tiny.gallery(tokens), one_at_a_time)


def test_text_and_reference_each_change_a_query(tiny: Tiny, tokens: Tensor) -> None:
    plain = tiny.compose(tokens, ["is red"] * 6)
    for changed in (
        tiny.compose(tokens, ["is blue"] * 6),
        tiny.compose(tokens.flip(0), ["is red"] * 6),
    ):
        assert (plain - changed).abs().amax(dim=1).min() > 1e-4
    ordered, other = (tiny.compose(tokens, [each] * 6) for each in ("red or blue", "blue or red"))
    assert (ordered - other).abs().max() > 1e-4


def test_words_beyond_the_limit_are_ignored(tiny: Tiny, tokens: Tensor) -> None:
    words = [f"w{i}" for i in range(MAX_WORDS + 5)]
    ids = word_ids([" ".join(words), "w0", ""])
    assert ids.shape == (3, MAX_WORDS)
    assert (ids != 0).sum(dim=1).tolist() == [MAX_WORDS, 1, 0]
    shortened = tiny.compose(tokens[:1], [" ".join(words[:MAX_WORDS])])
    torch.testing.assert_close(tiny.compose(tokens[:1], [" ".join(words)]), shortened)


def test_texts_without_a_word(tiny: Tiny, tokens: Tensor) -> None:
    assert word_ids(["", "!"]).shape == (2, 0)
    assert tiny.compose(tokens[:2], ["", "!"]).isfinite().all()


def test_training_does_not_change_the_frozen_part() -> None:
    first, second = new_tiny(0), new_tiny(1)
    assert first.frozen_id() == second.frozen_id()
    for parameter in first.parameters():
        nn.init.ones_(parameter)
    assert first.frozen_id() == second.frozen_id()
    pixels = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))
    assert first.image_tokens(pixels).equal(second.image_tokens(pixels))


def test_every_trained_parameter_gets_a_gradient(tokens: Tensor) -> None:
    scorer = Scorer(new_tiny(), "max").train()
    texts = ["is red and has dots", "no logo"] * 3
    margins = scorer(tokens, texts, tokens.flip(0), tokens.roll(1, 0))
    bradley_terry_loss(margins).sum().backward()
    for name, parameter in trained_parameters(scorer).items():
        assert parameter.grad is not None, name
        if not name.endswith(".k.bias"):  # softmax does not see what is added to every key
            assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_tokens_are_accepted(tiny: Tiny, tokens: Tensor, dtype: torch.dtype) -> None:
    rounded = tokens.to(dtype)
    texts = ["is red"] * 6
    assert tiny.compose(rounded, texts).equal(tiny.compose(rounded.float(), texts))
    assert tiny.gallery(rounded).equal(tiny.gallery(rounded.float()))
