"""How hard the drawn negatives are: where they lie below the target, and what a step learns.

A negative far below its target teaches little: the loss changes with the margin by
sigmoid(-margin), its gradient weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

FAR = 5.0
"""Margins beyond this many temperatures have a gradient weight below 0.007."""

COLUMNS = ("place", "margin", "weight", "random_weight", "skewness")
"""What `hardness_of` measures of each query, in this order."""


@dataclass(frozen=True, slots=True)
class Hardness:
    """The negatives of a definition, over its queries.

    Attributes:
        median_place: of a negative below its target: 1 is the next image, negative is above.
        mean_margin: in temperatures.
        share_far: of the margins beyond `FAR`.
        mean_weight: the mean gradient weight.
        random_weight: the same of images drawn from everything but the target.
        mean_skewness: of a query's scores. Steep drops are near the target if it is above 0.
    """

    median_place: float
    mean_margin: float
    share_far: float
    mean_weight: float
    random_weight: float
    mean_skewness: float

    @property
    def is_easier_than_random(self) -> bool:
        return self.mean_weight < self.random_weight


def hardness_of(scores: Tensor, targets: Tensor, negatives: Tensor, temperature: float) -> Tensor:
    """Measure a negative of each query by `COLUMNS`: [B, N], [B] and [B] -> [B, 5] float32."""
    column = targets.unsqueeze(1)  # [B, 1]
    target_scores = scores.gather(1, column)  # [B, 1]
    negative_scores = scores.gather(1, negatives.long().unsqueeze(1))  # [B, 1]
    above_negative = (scores > negative_scores).sum(dim=1)  # [B]
    above_target = (scores > target_scores).sum(dim=1)  # [B]
    margins = (target_scores - scores) / temperature  # [B, N], 0 at the target
    weights = torch.sigmoid(-margins)  # [B, N]
    n_others = scores.shape[1] - 1
    margin = (target_scores - negative_scores).squeeze(1) / temperature  # [B]
    columns = (
        above_negative - above_target,
        margin,
        torch.sigmoid(-margin),
        (weights.sum(dim=1) - 0.5) / n_others,  # without the target's own
        skewness(scores),
    )
    return torch.stack([values.float() for values in columns], dim=1)


def skewness(values: Tensor) -> Tensor:
    """The third standardised moment of each row [B, N]: [B], 0 where all values are equal."""
    centred = values - values.mean(dim=1, keepdim=True)  # [B, N]
    variance = centred.square().mean(dim=1)  # [B]
    third = (centred * centred.square()).mean(dim=1)  # [B]
    return torch.where(variance > 0, third / variance.clamp_min(1e-30).pow(1.5), 0.0)


def summary(rows: Tensor) -> Hardness:
    """Summarise the rows [Q, 5] of all queries."""
    values = dict(zip(COLUMNS, rows.double().unbind(dim=1), strict=True))
    return Hardness(
        median_place=values["place"].median().item(),
        mean_margin=values["margin"].mean().item(),
        share_far=(values["margin"] > FAR).double().mean().item(),
        mean_weight=values["weight"].mean().item(),
        random_weight=values["random_weight"].mean().item(),
        mean_skewness=values["skewness"].mean().item(),
    )
