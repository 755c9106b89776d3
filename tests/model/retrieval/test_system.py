"""The Combiner's pairs against composing each pair on its own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hsfiq.model.retrieval.system import Combiner


@pytest.fixture(scope="module")
def inputs() -> tuple[Tensor, Tensor]:
    """Images [3, D] and texts [4, D]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(3, 8, generator=generator), torch.randn(4, 8, generator=generator)


def combiner(dropout: float) -> Combiner:
    torch.manual_seed(0)
    return Combiner(dim=8, projection=12, hidden=20, dropout=dropout)


def literal_pairs(model: Combiner, images: Tensor, texts: Tensor) -> Tensor:
    """Each pair is a batch of one: [I, J, D]."""
    rows = [[model(image[None], text[None])[0] for image in images] for text in texts]
    return torch.stack([torch.stack(row) for row in rows])


def test_pairs_are_those_of_forward(inputs: tuple[Tensor, Tensor]) -> None:
    model = combiner(dropout=0.5).eval()
    pairs = model.pairs(*inputs)
    assert pairs.shape == (4, 3, 8)
    torch.testing.assert_close(pairs, literal_pairs(model, *inputs), atol=1e-6, rtol=0)


def test_gradients_of_pairs_are_those_of_forward(inputs: tuple[Tensor, Tensor]) -> None:
    model = combiner(dropout=0.0)
    wanted = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(2))
    gradients = []
    for compose in (Combiner.pairs, literal_pairs):
        model.zero_grad()
        (compose(model, *inputs) * wanted).sum().backward()
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-5, rtol=1e-5, msg=name)


def test_dropout_acts_on_pairs_in_training_alone(inputs: tuple[Tensor, Tensor]) -> None:
    model = combiner(dropout=0.5)
    assert not torch.equal(model.pairs(*inputs), model.pairs(*inputs))
    model.eval()
    assert torch.equal(model.pairs(*inputs), model.pairs(*inputs))
