"""The loss, compared with the papers' formulas one query at a time, and the scorer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import Pooling
from hsfiq.model.scorer.inference import autocast, evaluating
from hsfiq.model.scorer.loading import copy_parameters
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, trained_parameters
from tests.model.encoders.small_encoder import SmallEncoder

pytestmark = pytest.mark.usefixtures("one_thread")

scores = st.floats(-30, 30, width=32)
batches = st.lists(st.tuples(scores, scores), min_size=1, max_size=8)
poolings = pytest.mark.parametrize("pooling", get_args(Pooling))


def loss_of(above: float, below: float) -> float:
    return bradley_terry_loss(torch.tensor([above - below], dtype=torch.float64)).item()


@given(scores, scores)
def test_the_loss_is_the_formula(above: float, below: float) -> None:
    literal = -math.log(1 / (1 + math.exp(-(above - below))))
    assert loss_of(above, below) == pytest.approx(literal, rel=1e-9, abs=1e-12)


@given(batches)
def test_loss_of_a_batch_is_likelihood_of_its_preferences(pairs: list[tuple[float, float]]) -> None:
    margins = torch.tensor([a - b for a, b in pairs], dtype=torch.float64)
    likelihood = math.prod(math.exp(a) / (math.exp(a) + math.exp(b)) for a, b in pairs)
    assert bradley_terry_loss(margins).sum().item() == pytest.approx(-math.log(likelihood))


def test_extreme_margins_have_a_finite_loss_and_gradient() -> None:
    margins = torch.tensor([-1e4, 0.0, 1e4], requires_grad=True)
    losses = bradley_terry_loss(margins)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([1e4, math.log(2), 0])
    assert margins.grad.tolist() == pytest.approx([-1, -0.5, 0])


def some_tokens(encoder: SmallEncoder, n: int, seed: int) -> torch.Tensor:
    return torch.randn(n, *encoder.tokens_shape, generator=torch.Generator().manual_seed(seed))


@poolings
def test_a_margin_is_the_pooled_difference_over_the_temperature(pooling: Pooling) -> None:
    encoder = SmallEncoder()
    references, targets, negatives = (some_tokens(encoder, 3, seed) for seed in (1, 2, 3))
    texts = ["is red", "and longer", "has dots"]
    with torch.no_grad():
        margins = Scorer(encoder, pooling)(references, texts, targets, negatives)
    for i, text in enumerate(texts):
        query = encoder.compose(references[i : i + 1], [text])[0].tolist()
        pooled = []
        for image in (targets[i], negatives[i]):
            vectors = encoder.gallery(image[None])[0].tolist()
            dots = [sum(a * b for a, b in zip(query, vector, strict=True)) for vector in vectors]
            pooled.append(max(dots) if pooling == "max" else sum(dots) / len(dots))
        literal = (pooled[0] - pooled[1]) / encoder.temperature.item()
        assert margins[i].item() == pytest.approx(literal, abs=1e-5)


@poolings
def test_a_set_compared_with_itself_is_not_preferred(pooling: Pooling) -> None:
    encoder = SmallEncoder()
    tokens = some_tokens(encoder, 4, 1)
    assert Scorer(encoder, pooling)(tokens, ["a"] * 4, tokens, tokens).tolist() == [0, 0, 0, 0]


def test_tokens_of_another_precision() -> None:
    encoder = SmallEncoder()
    tokens = some_tokens(encoder, 4, 1).half()
    for dtype in (torch.bfloat16, torch.float32):
        with autocast(torch.device("cpu"), dtype):
            margins = Scorer(encoder, "max")(tokens, ["a"] * 4, tokens.flip(0), tokens)
        assert margins.isfinite().all()


def test_margins_keep_fp32_in_mixed_precision() -> None:
    """Cosines near 0.65 over 0.07: computed in bf16, 4,096 margins had 49 distinct values."""
    generator = torch.Generator().manual_seed(0)
    near = torch.tensor([0.65, (1 - 0.65**2) ** 0.5])
    images = F.normalize(near + 0.01 * torch.randn(8192, 2, generator=generator), dim=-1)

    class Vectors(SmallEncoder):
        def compose(self, tokens: torch.Tensor, texts: Sequence[str]) -> torch.Tensor:
            assert len(texts) == len(tokens)
            return torch.tensor([[1.0, 0.0]]).expand(len(tokens), -1)

        def gallery(self, tokens: torch.Tensor) -> torch.Tensor:
            return tokens

    scorer = Scorer(Vectors(), "max")
    targets, negatives = images[:, None].chunk(2)
    forward = partial(scorer, targets, [""] * 4096, targets, negatives)
    with torch.no_grad(), autocast(torch.device("cpu"), torch.bfloat16):
        margins = forward()
    assert margins.dtype == torch.float32
    assert margins.equal(forward())
    assert len(margins.unique()) > 4000


def test_only_trained_weights_are_saved() -> None:
    scorer = Scorer(SmallEncoder(), "max")
    assert set(trained_parameters(scorer)) == {
        *("encoder.project", "encoder.word", "encoder.temperature")
    }


def test_loading_weights_gives_the_same_scorer() -> None:
    first, second = (Scorer(SmallEncoder(seed), "max") for seed in (0, 1))
    copy_parameters(trained_parameters(first), trained_parameters(second), "it")
    for name, weight in trained_parameters(first).items():
        assert trained_parameters(second)[name].equal(weight)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder.word": None}, "1 of its tensors differ, first encoder.word"),
        ({"encoder.more": torch.zeros(1)}, "1 of its tensors differ, first encoder.more"),
        ({"encoder.word": torch.zeros(2)}, "1 of its tensors differ, first encoder.word"),
        (
            {"encoder.word": torch.zeros(2), "encoder.project": torch.zeros(2)},
            "2 of its tensors differ, first encoder.project",
        ),
    ],
)
def test_weights_of_another_encoder_change_nothing(
    changes: dict[str, torch.Tensor | None], message: str
) -> None:
    scorer = Scorer(SmallEncoder(), "max")
    before = {name: parameter.clone() for name, parameter in trained_parameters(scorer).items()}
    tensors = {
        name: parameter + 1
        for name, parameter in before.items()
        if changes.get(name, parameter) is not None
    } | {name: tensor for name, tensor in changes.items() if tensor is not None}
    with pytest.raises(UnreadableInput, match=f"it.json: does not fit the encoder: {message}"):
        copy_parameters(tensors, trained_parameters(scorer), "it.json")
    for name, weight in trained_parameters(scorer).items():
        assert weight.equal(before[name])


def test_the_mode_is_always_restored() -> None:
    scorer = Scorer(SmallEncoder(), "max")
    for training in (True, False):
        scorer.train(training)
        with evaluating(scorer):
            assert not scorer.training
        assert scorer.training is training
        with pytest.raises(KeyError), evaluating(scorer):
            raise KeyError
        assert scorer.training is training
