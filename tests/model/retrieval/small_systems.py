"""Small systems on small backbones, batches of random images, and losses that they share."""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from hsfiq.model.encoders.tiny import N_PATCHES, PATCH_WIDTH
from hsfiq.model.retrieval.loading import new_system
from hsfiq.model.retrieval.system import Batch, Losses, System
from hsfiq.model.system_recipes import system_on_drawn, system_recipe

TEXTS = (
    "is red and has longer sleeves",
    "is plain",
    "has a v-neck and a logo",
    "is blue",
    "is more formal and is black",
    "has shorter sleeves",
)

_System = TypeVar("_System", bound=System)


def random_batch(seed: int = 0) -> Batch:
    """Six triplets; the reversed texts are others than the texts."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(TEXTS), N_PATCHES, PATCH_WIDTH)
    return Batch(
        triplet_ids=[str(row) for row in range(len(TEXTS))],
        texts=list(TEXTS),
        reversed_texts=list(reversed(TEXTS)),
        references=torch.randn(shape, generator=generator),  # [B, P, W]
        targets=torch.randn(shape, generator=generator),
    )


BATCH = random_batch()


def begun(system: _System, stage: int) -> _System:
    """The system in a stage, without dropout, its image side large enough to matter."""
    system.begin(stage)
    with torch.no_grad():
        system.backbone.image.patches.mul_(30)  # starts small: texts would hide it
    return system.eval()


def trained_names(system: System, batch: Batch) -> set[str]:
    """The parameters that a step would change."""
    system.zero_grad()
    torch.stack(list(system.losses(batch).terms.values())).sum().backward()
    return {
        name
        for name, parameter in system.named_parameters()
        if parameter.grad is not None and parameter.grad.any()
    }


def losses_of_steps(system: System, batch: Batch, n: int, lr: float) -> list[float]:
    """The losses of n steps on one batch."""
    torch.manual_seed(0)
    system.train()
    parameters = [parameter for parameter in system.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    losses = []
    for _ in range(n):
        loss = torch.stack(list(system.losses(batch).terms.values())).sum()  # []
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def has_dropout_on(module: nn.Module) -> bool:
    return any(part.training for part in module.modules() if isinstance(part, nn.Dropout))


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
