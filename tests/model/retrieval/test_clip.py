"""CLIP RN50x4 against open_clip, and at its true size."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.retrieval.clip import (
    MERGES_FILE,
    N_MERGES,
    RN50X4_IMAGE,
    RN50X4_TEXT,
    Clip,
    ResNetSizes,
    TextSizes,
    build,
    find_merges,
    read_merges,
    sized,
    tokenizer_of,
)
from tests.model.retrieval.clip_reference import (
    MERGES,
    ClipReference,
    filled_clip,
    read_clip_reference,
)


@pytest.fixture(scope="module")
def reference() -> ClipReference:
    return read_clip_reference()


@pytest.fixture(scope="module")
def clip(reference: ClipReference) -> Clip:
    return filled_clip(reference)


def test_vectors_are_open_clips(reference: ClipReference, clip: Clip) -> None:
    tokens = clip.image_tokens(reference.pixels)
    assert tokens.shape == (3, *clip.tokens_shape)
    with torch.no_grad():
        image, text = clip.image_vectors(tokens), clip.text_vectors(reference.about["texts"])
    torch.testing.assert_close(image, reference.image, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(text, reference.text, atol=1e-5, rtol=1e-5)


def test_tokens_may_have_half_precision(reference: ClipReference, clip: Clip) -> None:
    vectors = clip.image_vectors(clip.image_tokens(reference.pixels).half())
    torch.testing.assert_close(vectors, reference.image, atol=2e-2, rtol=2e-2)


def test_a_text_does_not_depend_on_texts_beside_it(reference: ClipReference, clip: Clip) -> None:
    texts = reference.about["texts"]
    together = clip.text_vectors(texts)
    for row, text in enumerate(texts):
        torch.testing.assert_close(clip.text_vectors([text])[0], together[row])


def test_token_ids_are_open_clips(reference: ClipReference, clip: Clip) -> None:
    length = reference.about["sizes"]["text_cfg"]["context_length"]
    tokenizer = tokenizer_of(read_merges(MERGES))
    assert len(tokenizer) == reference.about["words"]
    for text, ids in reference.about["tokenized"]:
        assert clip.word_ids([text]).input_ids.tolist() == [ids], text
        assert len(ids) <= length


def test_gradients_reach_both_encoders(reference: ClipReference, clip: Clip) -> None:
    trained = filled_clip(reference).train()
    before = {name: value.clone() for name, value in trained.named_buffers()}
    tokens = trained.image_tokens(reference.pixels)
    vectors = trained.image_vectors(tokens) + trained.text_vectors(["is red"] * 3)
    vectors.square().sum().backward()
    without = [name for name, value in trained.named_parameters() if value.grad is None]
    assert without == []
    assert all(value.grad.any() for value in trained.parameters() if value.grad is not None)
    for name, value in trained.named_buffers():
        torch.testing.assert_close(value, before[name], msg=name)
    torch.testing.assert_close(
        vectors[:, :], clip.image_vectors(tokens) + clip.text_vectors(["is red"] * 3)
    )


def test_rn50x4_has_the_published_numbers_of_parameters() -> None:
    with torch.device("meta"):
        model = Clip(RN50X4_IMAGE, RN50X4_TEXT, None)
    counts = [sum(p.numel() for p in part.parameters()) for part in (model.image, model.text)]
    # open_clip's RN50x4-quickgelu has 178,300,601, of which one is its temperature.
    assert sum(counts) == 178_300_600
    assert counts[0] == 87_137_080
    with torch.device("meta"):
        vectors = model.image_vectors(torch.empty(2, *model.tokens_shape))
    assert vectors.shape == (2, 640)


@pytest.mark.slow
def test_rn50x4_from_nothing_tells_images_and_texts_apart() -> None:
    model = sized(
        RN50X4_IMAGE,
        RN50X4_TEXT,
        tokenizer_of(read_merges(MERGES)),
        torch.Generator().manual_seed(1),
    )
    pixels = torch.zeros(2, 3, 288, 288)
    pixels[0, 0], pixels[1, 2, :, 100:] = 2, 2
    with torch.no_grad():
        image = model.image_vectors(model.image_tokens(pixels))
        text = model.text_vectors(["is red", "is blue"])
    for vectors in (image, text):
        assert vectors.shape == (2, 640)
        length = vectors.norm(dim=1).mean()
        assert (vectors[0] - vectors[1]).norm() > 0.02 * length
        assert 0.1 < length < 1000


def test_the_same_seed_draws_the_same_weights(reference: ClipReference) -> None:
    sizes = reference.about["sizes"]["text_cfg"]
    small = [
        sized(
            ResNetSizes(64, 4, (1, 1, 1, 1), 8),
            TextSizes(sizes["vocab_size"], 16, 16, 2, 1, 8),
            None,
            torch.Generator().manual_seed(seed),
        ).state_dict()
        for seed in (3, 3, 4)
    ]
    assert all(torch.equal(small[0][name], small[1][name]) for name in small[0])
    assert not torch.equal(small[0]["image.conv1.weight"], small[2]["image.conv1.weight"])
    assert all(value.isfinite().all() for value in small[0].values())


def test_a_missing_tokenizer_file_is_named_with_its_address(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match=r"https://github.com/openai/CLIP.*--weights"):
        build(tmp_path, None)


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"comment\na b c\n", mtime=0)],
    ids=["not gzip", "three words a line"],
)
def test_a_broken_tokenizer_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MERGES_FILE).write_bytes(content)
    with pytest.raises(UnreadableInput, match="again"):
        read_merges(find_merges(tmp_path))


def test_merges_beyond_the_published_ones_are_left_out(tmp_path: Path, no_network: None) -> None:
    lines = ["comment", *(f"a{i} b" for i in range(N_MERGES + 5))]
    (tmp_path / MERGES_FILE).write_bytes(gzip.compress("\n".join(lines).encode()))
    assert len(read_merges(tmp_path / MERGES_FILE)) == N_MERGES
