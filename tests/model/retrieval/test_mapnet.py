"""MAPNet's losses and Sinkhorn's plan, against literal loops and a linear program."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn.functional import normalize

from hsfiq.model.retrieval.mapnet import (
    Mapnet,
    proximity_loss,
    squared_distances,
    squared_mmd,
    transport_plan,
)
from hsfiq.model.retrieval.system import Batch
from hsfiq.model.system_recipes import Proximity
from tests.model.retrieval.small_systems import (
    backward,
    literal_contrastive,
    small_system,
    without_gradient,
)

pytestmark = pytest.mark.usefixtures("one_thread")


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


@pytest.mark.parametrize(("n", "m"), [(4, 4), (6, 3)])
def test_at_a_small_temperature_it_solves_the_linear_program(n: int, m: int) -> None:
    values = similarities(5, n, m).double()
    cost = -values.log().numpy()
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    exact = linprog(
        cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=[*[1 / n] * n, *[1 / m] * m]
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


def test_distances() -> None:
    first, second = unit_vectors(3, 2, 4, 5), unit_vectors(4, 2, 3, 5)
    assert torch.allclose(
        squared_distances(first, second), torch.cdist(first, second).square(), atol=1e-5
    )


def mapnet(**values: str) -> Mapnet:
    system = small_system("mapnet-fashioniq", **values)
    assert isinstance(system, Mapnet)
    return system


def literal_proximity(
    queries: Tensor, targets: Tensor, weights: Tensor, gamma: float, proximity: str
) -> float:
    n = len(queries)
    loss = 0.0
    for i in range(n):
        distances = [float((queries[i] - target).norm()) for target in targets]
        for j in range(n):
            cosine = float(queries[i] @ targets[j])
            if proximity == "printed":
                c = (1 + cosine) / 2
                push = (1 - c) ** 2
            else:
                c = (
                    1 - cosine
                    if proximity == "cosine-distance"
                    else distances[j] * n / sum(distances)
                )
                push = max(1 - c, 0) ** 2
            w = float(weights[i, j])
            loss += (w * c**2 + max(gamma - w, 0) * push) / n**2
    return loss


@pytest.mark.parametrize("proximity", ["cosine-distance", "euclidean", "printed"])
def test_the_proximity_loss_equals_a_literal_one(proximity: Proximity) -> None:
    queries, targets = unit_vectors(1, 5, 6), unit_vectors(2, 5, 6)
    weights = torch.rand(5, 5, generator=torch.Generator().manual_seed(3))
    loss = proximity_loss(queries, targets, weights, 0.5, proximity)
    literal = literal_proximity(queries, targets, weights, 0.5, proximity)
    assert loss.item() == pytest.approx(literal, abs=1e-6)


@pytest.mark.parametrize(
    ("proximity", "expected"),
    [
        # C = [[0.4, 0.2], [1, 0.2]]; the push counts off the diagonal alone, where W = 0.1.
        ("cosine-distance", (0.4**2 + 0.1 * 0.2**2 + 0.4 * 0.8**2 + 0.1 * 1 + 0.2**2) / 4),
        # C = [[0.8, 0.9], [0.5, 0.9]].
        ("printed", (0.8**2 + 0.1 * 0.9**2 + 0.4 * 0.1**2 + 0.1 * 0.25 + 0.4 * 0.25 + 0.9**2) / 4),
    ],
)
def test_the_proximity_loss_by_hand(proximity: Proximity, expected: float) -> None:
    queries = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    targets = torch.tensor([[0.6, 0.0, 0.8], [0.8, 0.8, 0.0]])  # the second only by its cosines
    weights = torch.tensor([[1.0, 0.1], [0.1, 1.0]])
    loss = proximity_loss(queries, targets, weights, 0.5, proximity)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


@torch.no_grad()
def test_the_losses_equal_literal_ones(batch: Batch) -> None:
    system = mapnet(contrastive_weight="0.5", msi_weight="0.3", rp_weight="7", gamma="0.6")
    start = system.gallery(batch.targets).mean(dim=1)
    for parameter in system.parameters():
        parameter.add_(
            0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        )
    losses = system.losses(batch)
    each = system.query_vectors(batch.references, batch.texts)
    images = system.gallery(batch.targets)
    queries = system.compose(batch.references, batch.texts)
    means = normalize(images.mean(dim=1), dim=1)
    assert losses.terms["itc"].item() == pytest.approx(
        0.5 * literal_contrastive(queries, images, 0.05), abs=1e-4
    )
    values = (1 + torch.einsum("bqd,bd->bq", each, means)) / 2
    plan = literal_plan(values.double(), 0.1, 50)
    chosen = [max(range(8), key=row.__getitem__) for row in plan]
    assert system.chosen_queries(each, means).tolist() == chosen
    interactions = [literal_mmd(each[i, k], images[i], 0.6) for i, k in enumerate(chosen)]
    assert losses.terms["msi"].item() == pytest.approx(0.3 * sum(interactions) / 6, abs=1e-5)
    near = normalize(start, dim=1)
    weights = torch.tensor(
        [[math.exp(-float((u - v).square().sum()) / 0.6) for v in near] for u in near]
    )
    literal = literal_proximity(queries, means, weights, 0.6, "cosine-distance")
    assert losses.terms["rp"].item() == pytest.approx(7 * literal, abs=1e-4)


def test_what_learns_from_which_term(batch: Batch) -> None:
    gallery = ("backbone.vision_proj.weight", "backbone.vision_proj.bias")
    for term, learns in (("contrastive_weight", True), ("msi_weight", False), ("rp_weight", True)):
        weights = {"contrastive_weight": "0", "msi_weight": "0", "rp_weight": "0", term: "1"}
        system = mapnet(**weights)
        losses = system.losses(batch)
        assert len(losses.terms) == 1
        backward(losses)
        missing = without_gradient(system)
        # The interaction stops the gradient on the targets' side.
        assert (set(gallery) <= missing) == (not learns)
        assert "backbone.text_proj.weight" not in missing
        assert "backbone.query_tokens" not in missing


def test_neighbours_are_those_at_the_start(batch: Batch) -> None:
    start, current = mapnet(), mapnet(neighbours="current")
    before = start.squared_neighbours(batch)
    assert before.equal(current.squared_neighbours(batch))
    for system in (start, current):
        nn.init.normal_(system.get_parameter("backbone.vision_proj.weight"))
    assert start.squared_neighbours(batch).equal(before)
    assert not current.squared_neighbours(batch).equal(before)
    (copied,) = start._at_start
    assert not any(p.requires_grad for p in copied.parameters())  # type: ignore[attr-defined]
    assert not any("at_start" in name for name in start.state_dict())


def test_the_transport_spreads_samples_over_queries() -> None:
    """One query is the nearest of every sample: without its marginal, all choose it."""
    each = unit_vectors(6, 4, 8).expand(16, 4, 8)
    targets = normalize(each[:, 2] + 0.3 * unit_vectors(7, 16, 8), dim=1)
    shared = mapnet(n_queries="4").chosen_queries(each, targets)
    alone = mapnet(n_queries="4", marginals="samples").chosen_queries(each, targets)
    assert alone.tolist() == [2] * 16
    assert len(set(shared.tolist())) == 4


def test_fewer_queries(batch: Batch) -> None:
    each = mapnet(n_queries="3").query_vectors(batch.references, batch.texts)
    assert each.shape == (6, 3, 128)
