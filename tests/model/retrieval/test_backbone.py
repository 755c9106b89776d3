"""The losses that several systems share, against loops over their formulas."""

from __future__ import annotations

from math import exp, log

import pytest
import torch
from torch import Tensor

from hsfiq.model.retrieval.backbone import contrastive, hn_nce
from hsfiq.model.retrieval.system import Combiner


def random_logits(n: int) -> Tensor:
    return 5 * torch.randn(n, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)


def literal_hn_nce(logits: list[list[float]], alpha: float, beta: float, *, slip: bool) -> float:
    n = len(logits)
    total = 0.0
    for i in range(n):
        negatives = 0.0
        for j in range(n):
            if j == i:
                continue
            row = j if slip else i
            divisor = sum(exp(beta * logits[row][k]) for k in range(n) if k != row)
            weight = (n - 1) * exp(beta * logits[i][j]) / divisor
            negatives += weight * exp(logits[i][j])
        own = exp(logits[i][i])
        total -= log(own / (alpha * own + negatives))
    return total / n


@pytest.mark.parametrize("slip", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.5), (0.3, 1.0), (0.0, 0.5), (1.0, 0.0)])
def test_hn_nce_is_its_formula(alpha: float, beta: float, slip: bool) -> None:
    logits = random_logits(7)
    expected = literal_hn_nce(logits.tolist(), alpha, beta, slip=slip)
    loss = hn_nce(logits, alpha, beta, as_published=slip)
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_the_published_slip_computed_by_hand() -> None:
    logits = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    # One negative a row: by the formula it weighs 1, by the code e^(0 - 1) and e^(1 - 0).
    assert hn_nce(logits, 1.0, 0.5).item() == pytest.approx(log(1 + exp(-1)))
    published = hn_nce(logits, 1.0, 0.5, as_published=True).item()
    assert published == pytest.approx((log(1 + exp(-2)) + log(2)) / 2)


def test_without_hardness_hn_nce_is_contrastive() -> None:
    logits = random_logits(5)
    torch.testing.assert_close(hn_nce(logits, 1.0, 0.0), contrastive(logits))


def test_hn_nce_and_its_gradient_are_finite_at_the_scale_of_training() -> None:
    cosines = torch.nn.functional.normalize(random_logits(16).float(), dim=1)
    logits = (100 * cosines).requires_grad_()
    loss = hn_nce(logits, 1.0, 0.5)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_one_row_alone_has_no_loss() -> None:
    assert hn_nce(torch.tensor([[3.0]]), 1.0, 0.5).item() == 0


def test_contrastive_computed_by_hand() -> None:
    logits = torch.tensor([[log(3.0), 0.0], [0.0, log(3.0)]])
    assert contrastive(logits).item() == pytest.approx(log(4 / 3))


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
