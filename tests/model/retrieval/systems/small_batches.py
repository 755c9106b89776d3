"""Batches of the drawn catalogue, systems on the small backbone, and literal forms of losses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hsfiq.model.data.texts import mining_text, normalise
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.recipes.systems import system_on_drawn, system_recipe
from hsfiq.model.retrieval.systems.batch import Batch, Losses
from hsfiq.model.retrieval.systems.registry import new_system
from hsfiq.model.retrieval.systems.system import System
from tests.model.training.helpers import Drawn


def small_system(name: str, **values: str) -> System:
    """The recipe's system on the small backbone, its first stage begun."""
    system = new_system(system_on_drawn(system_recipe(name)).with_values(values), None).eval()
    system.begin(1)
    return system


def drawn_batch(drawn: Drawn, tokens: TokenSource, n: int = 7) -> Batch:
    """The first training triplets."""
    triplets = drawn.data.train[:n]
    texts = [normalise(mining_text(triplet.captions)) for triplet in triplets]
    return Batch(
        triplet_ids=[triplet.triplet_id for triplet in triplets],
        texts=texts,
        reversed_texts=texts,
        references=tokens.tokens([triplet.reference for triplet in triplets]),
        targets=tokens.tokens([triplet.target for triplet in triplets]),
    )


def literal_contrastive(queries: Tensor, images: Tensor, temperature: float) -> float:
    """The mean of -log softmax of each query's own image: [B, D], [B, L, D] of length 1."""
    total = 0.0
    for row, query in enumerate(queries):
        scores = [max(float(query @ vector) for vector in image) / temperature for image in images]
        total -= scores[row] - math.log(sum(math.exp(score) for score in scores))
    return total / len(queries)


def backward(losses: Losses) -> None:
    torch.stack(list(losses.terms.values())).sum().backward()  # type: ignore[no-untyped-call]


def without_gradient(module: nn.Module) -> set[str]:
    """The names of parameters that no gradient has reached."""
    return {
        name
        for name, parameter in module.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    }


def losses_of_steps(system: System, batch: Batch, n: int) -> Sequence[float]:
    """The loss before each of some steps of AdamW on one batch."""
    optimizer = torch.optim.AdamW(system.parameters(), lr=1e-3)
    totals = []
    for _ in range(n):
        optimizer.zero_grad()
        losses = system.losses(batch)
        totals.append(sum(term.item() for term in losses.terms.values()))
        backward(losses)
        optimizer.step()
    return totals
