"""The loss, compared with the papers' formulas one query at a time, and the scorer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from hsfiq.errors import UnreadableInput
from hsfiq.model.recipes import Pooling
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import autocast, evaluating
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths, copy_parameters
from hsfiq.model.scorer.run import run
from hsfiq.model.scorer.scorer import (
    Scorer,
    bradley_terry_loss,
    in_batch_margins,
    trained_parameters,
)
from tests.model.encoders.small_encoder import SmallEncoder
from tests.model.scorer.helpers import CPU, ONE_PROCESS, SMALL, Drawn

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


IN_BATCH = replace(SMALL, strategy="in-batch", n_neg=None, epochs=2, n_def=1)


@pytest.mark.parametrize("n", [2, 7])
def test_the_loss_is_the_cross_entropy_of_each_row(n: int) -> None:
    logits = torch.randn(n, n, generator=torch.Generator().manual_seed(n)).mul(5).requires_grad_()
    loss = bradley_terry_loss(in_batch_margins(logits))
    slow = [
        -torch.log(row[i].exp() / sum(value.exp() for value in row)) for i, row in enumerate(logits)
    ]
    torch.testing.assert_close(loss, torch.stack(slow))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient, logits.softmax(dim=1) - torch.eye(n))


def test_a_triplet_alone_has_no_loss() -> None:
    logits = torch.tensor([[3.0]], requires_grad=True)
    loss = bradley_terry_loss(in_batch_margins(logits))
    assert loss.item() == 0
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.item() == 0


def test_a_run_ends_and_is_the_same_again(drawn: Drawn, tmp_path: Path) -> None:
    """The last batch of 14 triplets in 13s has one."""
    shas = []
    for name in ("first", "second"):
        paths = ScorerPaths(cache=drawn.cache)
        job = TrainingJob(drawn.first(14), tmp_path / name, paths, ONE_PROCESS, Callback())
        checkpoint = run(IN_BATCH, job)
        shas.append(checkpoint.sha256)
        (definition,) = checkpoint.about["progress"]["definitions"]
        assert definition["rule"] == "the other targets of the batch"
    assert shas[0] == shas[1]


def test_parts_of_a_batch_and_several_processes_are_refused(drawn: Drawn, tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="needs accumulate=1"):
        replace(IN_BATCH, batch=12, accumulate=2)
    job = TrainingJob(
        drawn.data, tmp_path, ScorerPaths(cache=drawn.cache), Distributed(CPU, 0, 2), Callback()
    )
    with pytest.raises(UnreadableInput, match="strategy=in-batch: trains in one process"):
        run(IN_BATCH, job)
