"""The steep score drops below the target, and the images between two of them (QuRe eq. 5-7).

An interval of the ranking is an interval of scores, so two scores define a set. They come from
sorted values: sorting values alone is many times cheaper than an argsort.
"""

from __future__ import annotations

import torch
from torch import Tensor

_STEEPEST = 4
"""Drops tried before sorting all of them: enough for nearly every query."""


def between_drops(
    scores: Tensor, target_scores: Tensor, *, apart: int, within: int | None = None
) -> Tensor:
    """The images between two steep drops below the target: [B, N] bool.

    Scores are [B, N] and finite, the targets' [B, 1]. A row is empty if no two drops qualify.

    A drop lies between neighbours in the ranking that both score below the target; the one from
    the target to the first below it does not count (QuRe eq. 6). Drops are ordered from the
    steepest on, equal ones by rank. The set lies between the first two successive drops whose
    places differ by more than `apart`: 0 is the paper's rule, the two steepest; the authors' code
    has 1. A drop of zero does not bound a set. With `within`, only drops among so many images below
    the target count.
    """
    costs = -scores  # [B, N]
    _sort(costs)  # best first
    first = torch.searchsorted(costs, -target_scores, right=True)  # [B, 1], first below the target
    # Raise the target and everything above it to the first score below it: no drop there counts.
    costs.clamp_(min=costs.gather(1, first.clamp(max=costs.shape[1] - 1)))
    if within is not None:  # lower the others to the last of these: no drop there counts
        last = (first + within - 1).clamp(max=costs.shape[1] - 1)  # [B, 1]
        costs.clamp_(max=costs.gather(1, last))
    drops = costs[:, 1:] - costs[:, :-1]  # [B, N - 1]
    upper, lower = _pair(drops, apart)  # [B, 1] each
    best = (-costs.gather(1, upper + 1)).masked_fill(upper == lower, -torch.inf)  # [B, 1]
    worst = -costs.gather(1, lower)  # [B, 1]
    return (scores <= best) & (scores >= worst)


def _pair(drops: Tensor, apart: int) -> tuple[Tensor, Tensor]:
    """The places of the two drops, [B, 1] each, higher rank first; equal if none qualify."""
    pair, settled = _successive(drops, _steepest(drops), apart)  # [B, 2], [B]
    rows = (~settled).nonzero().squeeze(1)  # [b]
    if rows.numel():
        ordered = drops[rows].sort(dim=1, descending=True, stable=True).indices  # [b, N - 1]
        pair[rows], _ = _successive(drops[rows], ordered, apart)
    return pair.amin(dim=1, keepdim=True), pair.amax(dim=1, keepdim=True)


def _successive(drops: Tensor, ordered: Tensor, apart: int) -> tuple[Tensor, Tensor]:
    """The first two successive drops that qualify, [B, 2], and whether that is certain, [B].

    `ordered` [B, n] are the places of the n steepest of the drops [B, N - 1], steepest first.
    """
    steep = drops.gather(1, ordered) > 0  # [B, n]
    gaps = (ordered[:, 1:] - ordered[:, :-1]).abs()  # [B, n - 1]
    fits = (gaps > apart) & steep[:, 1:]  # [B, n - 1]
    # A last column that always fits stands for "none", and makes n = 1 an ordinary case.
    first = torch.nn.functional.pad(fits, (0, 1), value=True).int().argmax(dim=1, keepdim=True)
    doubled = torch.cat([ordered, ordered[:, -1:]], dim=1)  # [B, n + 1]
    pair = torch.cat([doubled.gather(1, first), doubled.gather(1, first + 1)], dim=1)  # [B, 2]
    return pair, fits.any(dim=1) | ~steep[:, -1]


def _steepest(drops: Tensor) -> Tensor:
    """The places of the few steepest drops, equal ones by rank: [B, n]."""
    remaining = drops.clone()  # [B, N - 1]
    places = []
    for _ in range(min(_STEEPEST, drops.shape[1])):
        places.append(_first_largest(remaining))  # [B, 1]
        remaining.scatter_(1, places[-1], -1)
    return torch.cat(places, dim=1)


def _sort(values: Tensor) -> None:
    """Sort each row [B, N] in place, ascending; on a CPU NumPy is several times faster."""
    if values.device.type == "cpu":
        values.numpy().sort(axis=1)
    else:
        values.copy_(values.sort(dim=1).values)


def _first_largest(values: Tensor) -> Tensor:
    """The place of each row's largest value, the first if several are equal: [B, 1]."""
    if values.device.type == "cpu":
        return torch.from_numpy(values.numpy().argmax(axis=1, keepdims=True))
    return values.argmax(dim=1, keepdim=True)
