"""What a step of a system's training reads and gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hsfiq.model.runtime.transfer import moved


@dataclass(frozen=True, slots=True)
class Batch:
    """B triplets, whose targets are each other's negatives."""

    triplet_ids: list[str]
    texts: list[str]
    reversed_texts: list[str]
    """Drawn apart from `texts`, for systems that also train on (target, text) -> reference."""
    references: Tensor  # [B, P, W] tokens
    targets: Tensor  # [B, P, W]

    def to(self, device: torch.device) -> Batch:
        return replace(
            self, references=moved(self.references, device), targets=moved(self.targets, device)
        )


@dataclass(frozen=True, slots=True)
class Losses:
    """The terms of a batch's loss by name, weighted, so that their sum is minimised."""

    terms: dict[str, Tensor]  # [] each
    logits: Tensor  # [B, B] of queries and targets
