"""Sinkhorn's plan and the distance of distributions, against literal loops and a linear program."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor

from hsfiq.model.retrieval.mapnet import squared_distances, squared_mmd, transport_plan


def similarities(seed: int, n_samples: int, n_queries: int) -> Tensor:
    drawn = torch.rand(n_samples, n_queries, generator=torch.Generator().manual_seed(seed))
    return 0.05 + 0.95 * drawn


def literal_plan(values: Tensor, temperature: float, sweeps: int) -> list[list[float]]:
    """Sinkhorn and Knopp's scaling of the kernel, as a textbook has it."""
    n, m = values.shape
    kernel = [[float(values[i, k]) ** (1 / temperature) for k in range(m)] for i in range(n)]
    u, v = [1.0] * n, [1.0] * m
    for _ in range(sweeps):
        u = [1 / n / sum(kernel[i][k] * v[k] for k in range(m)) for i in range(n)]
        v = [1 / m / sum(kernel[i][k] * u[i] for i in range(n)) for k in range(m)]
    u = [1 / n / sum(kernel[i][k] * v[k] for k in range(m)) for i in range(n)]
    return [[u[i] * kernel[i][k] * v[k] for k in range(m)] for i in range(n)]


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 5), st.sampled_from([0.1, 0.5, 2.0]))
def test_the_plan_equals_a_literal_one(seed: int, n: int, m: int, temperature: float) -> None:
    values = similarities(seed, n, m)
    plan = transport_plan(values, temperature, 7)
    literal = torch.tensor(literal_plan(values.double(), temperature, 7))
    assert torch.allclose(plan, literal, atol=1e-6)


@pytest.mark.parametrize(("n", "m"), [(5, 3), (3, 5), (8, 8)])
def test_marginals(n: int, m: int) -> None:
    values = similarities(2, n, m)
    plan = transport_plan(values, 0.1, 2000)
    assert torch.allclose(plan.sum(dim=1), torch.full((n,), 1 / n), atol=1e-6)
    assert torch.allclose(plan.sum(dim=0), torch.full((m,), 1 / m), atol=1e-6)
    free = transport_plan(values, 0.1, 50, both_marginals=False)
    assert torch.allclose(free.sum(dim=1), torch.full((n,), 1 / n), atol=1e-6)
    assert torch.equal(free.argmax(dim=1), values.argmax(dim=1))


def test_a_plan_by_hand() -> None:
    """With x = sqrt(2 * 8) / (sqrt(2 * 8) + sqrt(1 * 1)) = 4 / 5 on the diagonal."""
    plan = transport_plan(torch.tensor([[0.2, 0.1], [0.1, 0.8]]), 1.0, 200)
    assert torch.allclose(plan, torch.tensor([[0.4, 0.1], [0.1, 0.4]]), atol=1e-6)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (6, 3)])
def test_at_a_small_temperature_it_solves_the_linear_program(n: int, m: int) -> None:
    values = similarities(5, n, m).double()
    cost = -values.log().numpy()
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    exact = linprog(
        cost.ravel(),
        A_eq=np.vstack([rows, columns]),
        b_eq=[*[1 / n] * n, *[1 / m] * m],
    )
    plan = transport_plan(values, 0.005, 3000).numpy()
    assert (plan * cost).sum() == pytest.approx(exact.fun, abs=2e-3)
    assert np.allclose(plan, exact.x.reshape(n, m), atol=2e-2)


def test_a_small_temperature_does_not_underflow() -> None:
    plan = transport_plan(torch.tensor([[1e-6, 1.0], [1.0, 1e-6]]), 0.001, 50)
    assert torch.allclose(plan, torch.tensor([[0.0, 0.5], [0.5, 0.0]]))


def literal_mmd(point: Tensor, others: Tensor, width: float) -> float:
    def kernel(x: Tensor, y: Tensor) -> float:
        return math.exp(-float((x - y).square().sum()) / width)

    sample, n = [point], len(others)
    within_sample = sum(kernel(x, y) for x in sample for y in sample)
    across = sum(kernel(point, y) for y in others) / n
    within = sum(kernel(x, y) for x in others for y in others) / n**2
    return within_sample - 2 * across + within


def unit_vectors(seed: int, *shape: int) -> Tensor:
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


def test_the_discrepancy_equals_a_literal_one() -> None:
    points, sets = unit_vectors(1, 4, 6), unit_vectors(2, 4, 3, 6)
    literal = [
        literal_mmd(point, vectors, 0.6) for point, vectors in zip(points, sets, strict=True)
    ]
    assert squared_mmd(points, sets, 0.6).tolist() == pytest.approx(literal, abs=1e-6)


def test_discrepancies_by_hand() -> None:
    """Opposite vectors are at squared distance 4, and orthogonal ones at 2."""
    x, y = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    sets = torch.stack([torch.stack([x, x]), torch.stack([-x, -x]), torch.stack([x, y])])
    values = squared_mmd(x.expand(3, 2), sets, 2.0)
    assert values.tolist() == pytest.approx(
        [0, 2 - 2 * math.exp(-2), 1 - (1 + math.exp(-1)) + (1 + math.exp(-1)) / 2], abs=1e-6
    )


def test_distances() -> None:
    first, second = unit_vectors(3, 2, 4, 5), unit_vectors(4, 2, 3, 5)
    assert torch.allclose(
        squared_distances(first, second), torch.cdist(first, second).square(), atol=1e-5
    )
