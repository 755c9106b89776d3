"""Systems on the small Q-Former, and a literal form of a loss that they share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.system import Losses, System
from hsfiq.model.system_recipes import system_on_drawn, system_recipe


def small_system(name: str, **values: str) -> System:
    """The recipe's system on the small backbone, its first stage begun."""
    system = new_system(system_on_drawn(system_recipe(name)).with_values(values), None).eval()
    system.begin(1)
    system.before_training()
    return system


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
