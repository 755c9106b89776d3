"""Drawing negatives: one per query and epoch until the sets are redefined.

Queries are scored and their sets defined a chunk at a time; only the drawn negatives are kept, no
score and no set. A query's draws follow from its own row of uniform numbers, so they depend neither
on the chunks nor on which process mines the query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hsfiq.model.negatives.hardness import hardness_of
from hsfiq.model.negatives.rules import NegativeRule, negative_mask, require_pool
from hsfiq.model.recipes.values import UNSCORED, Pooling
from hsfiq.model.scorer.ranks import require_columns
from hsfiq.model.scorer.scorer import relevance


@dataclass(frozen=True, slots=True)
class Drawn:
    """The negatives of Q queries, on the CPU: columns of the pool, one for each of T epochs."""

    columns: Tensor  # [Q, T] int32
    sizes: Tensor  # [Q] int32, of the sets (QuRe Figure 5 plots their mean)
    fell_back: Tensor  # [Q] bool, whether the strategy gave no set
    hardness: Tensor | None  # [Q, 5] of the first negatives; None if nothing was scored


def draw_negatives(
    queries: Tensor,
    gallery: Tensor,
    targets: Tensor,
    rule: NegativeRule,
    uniforms: Tensor,
    pooling: Pooling,
    *,
    chunk: int,
    temperature: float,
) -> Drawn:
    """Score the pool for each query, define the sets and draw; raises as `negative_mask`.

    Args:
        queries: [Q, D], on the device that is to compute.
        gallery: [N, L, D], the pool, as `relevance` takes it.
        targets: [Q] columns.
        rule: for those in `UNSCORED` nothing is scored.
        uniforms: [Q, T] in [0, 1). With several processes, draw them for all queries from one
            generator and give each process the rows of its queries.
        chunk: how many queries and images to score at a time.
        temperature: the scorer's, by which margins are divided.
    """
    if rule.strategy in UNSCORED:
        return draw_from_corpus(len(gallery), targets, uniforms)
    # At least one chunk: an empty share gives an empty result.
    starts = range(0, max(len(queries), 1), chunk)
    require_columns(targets, len(gallery), "target")
    return _concatenated(
        draw_from_scores(
            _scored(queries[start : start + chunk], gallery, pooling, chunk),
            targets[start : start + chunk],
            rule,
            uniforms[start : start + chunk],
            temperature,
        )
        for start in starts
    )


def _scored(queries: Tensor, gallery: Tensor, pooling: Pooling, chunk: int) -> Tensor:
    """The relevance [B, N] of at most `chunk` queries [B, D]."""
    # Products of other shapes round differently: pad every chunk to the same shape, so that a
    # query's scores do not depend on its chunk.
    padded = torch.nn.functional.pad(queries, (0, 0, 0, chunk - len(queries)))  # [chunk, D]
    return relevance(padded, gallery, pooling, chunk=chunk)[: len(queries)]


def draw_from_scores(
    scores: Tensor, targets: Tensor, rule: NegativeRule, uniforms: Tensor, temperature: float
) -> Drawn:
    """Define the sets by scores [B, N] and draw from them."""
    mask, fell_back = negative_mask(scores, targets, rule)
    members = _members(mask)  # [sum of sizes], indices into the flattened mask, set by set
    rows = torch.arange(len(mask) + 1, device=mask.device)  # [B + 1]
    bounds = torch.searchsorted(members, rows * mask.shape[1])  # [B + 1]
    sizes = bounds.diff()  # [B]
    picks = _picks(sizes, uniforms.to(sizes.device))  # [B, T]
    columns = members[bounds[:-1, None] + picks] % mask.shape[1]  # [B, T]
    hardness = hardness_of(scores, targets, columns[:, 0], temperature)  # [B, 5]
    return Drawn(columns.int().cpu(), sizes.int().cpu(), fell_back.cpu(), hardness.cpu())


def draw_from_corpus(n_images: int, targets: Tensor, uniforms: Tensor) -> Drawn:
    """Draw from everything but the targets [B] of a pool of `n_images`, without scores."""
    require_pool(n_images)
    require_columns(targets, n_images, "target")
    sizes = torch.full_like(targets, n_images - 1)  # [B]
    picks = _picks(sizes, uniforms.to(targets.device))  # [B, T]
    columns = picks + (picks >= targets.unsqueeze(1))  # [B, T]
    fell_back = torch.zeros(len(targets), dtype=torch.bool)  # [B]
    return Drawn(columns.int().cpu(), sizes.int().cpu(), fell_back, None)


def _picks(sizes: Tensor, uniforms: Tensor) -> Tensor:
    """Draw from sets {0, ..., size - 1} without replacement; an exhausted set starts again.

    Sizes [B] and uniforms [B, T] give [B, T]: the t-th depends on the t-th uniform and earlier.
    """
    picks = torch.empty(uniforms.shape, dtype=torch.int64, device=sizes.device)  # [B, T]
    for t in range(uniforms.shape[1]):
        drawn = t % sizes  # [B], draws since the set was last complete
        remaining = sizes - drawn  # [B]
        # A float below 1 times an integer never rounds up to that integer.
        pick = (uniforms[:, t] * remaining).long()  # [B], among the remaining
        since = torch.arange(t, device=sizes.device) >= (t - drawn).unsqueeze(1)  # [B, t]
        taken = picks[:, :t].where(since, sizes.unsqueeze(1)).sort(dim=1).values  # [B, t]
        for earlier in taken.unbind(dim=1):
            pick = pick + (pick >= earlier)
        picks[:, t] = pick
    return picks


def _members(mask: Tensor) -> Tensor:
    """The indices of a mask [B, N] that are set, flattened; NumPy is faster on a CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.flatten().nonzero().squeeze(1)


def _concatenated(parts: Iterable[Drawn]) -> Drawn:
    columns, sizes, fell_back, hardness = zip(
        *((part.columns, part.sizes, part.fell_back, part.hardness) for part in parts), strict=True
    )
    return Drawn(*map(torch.cat, (columns, sizes, fell_back, hardness)))
