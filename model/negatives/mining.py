"""Drawing negatives: one per query and epoch until the sets are next defined.

Queries are scored and their sets defined a chunk at a time; only what was drawn is kept, never a
score or a set. A query's draws follow from its own row of uniform numbers, so it matters neither
how queries are cut into chunks nor which process mines which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from hsfiq.model.negatives.rules import negative_mask, require_pool
from hsfiq.model.scorer.relevance import relevance, require_columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from hsfiq.model.encoders.protocol import Pooling
    from hsfiq.model.negatives.rules import NegativeRule


@dataclass(frozen=True, slots=True)
class Drawn:
    """The negatives of Q queries, on the CPU.

    Attributes:
        columns: [Q, T] int32, the pool's columns: one draw for each of T epochs.
        sizes: [Q] int32, of the sets that they were drawn from (QuRe Figure 5 plots their mean).
        fell_back: [Q] bool, where the strategy found no set (`hsfiq.model.negatives.rules`).
    """

    columns: Tensor
    sizes: Tensor
    fell_back: Tensor


def draw_negatives(
    queries: Tensor,
    gallery: Tensor,
    targets: Tensor,
    rule: NegativeRule,
    uniforms: Tensor,
    pooling: Pooling,
    *,
    chunk: int,
) -> Drawn:
    """Score the pool for each query, define the sets and draw from them.

    Args:
        queries: [Q, D], on the device that is to compute.
        gallery: [N, L, D], as `relevance` takes it: the pool.
        targets: [Q] columns.
        rule: which images may be drawn; for `corpus` nothing is scored.
        uniforms: [Q, T] from 0 to below 1, a row per query. To share queries out among processes
            make them for all from one generator, and give each process its queries' rows.
        pooling: over an image's vectors.
        chunk: queries at a time, and images at a time.

    Raises:
        UnreadableInput: a pool of one image, a target outside it, a score that is no number.
    """
    if rule.strategy == "corpus":
        return draw_from_corpus(len(gallery), targets, uniforms)
    # One chunk even without queries, so that an empty share yields an empty result.
    starts = range(0, max(len(queries), 1), chunk)
    require_columns(targets, len(gallery), "target")
    return _joined(
        draw_from_scores(
            _scored(queries[start : start + chunk], gallery, pooling, chunk),
            targets[start : start + chunk],
            rule,
            uniforms[start : start + chunk],
        )
        for start in starts
    )


def _scored(queries: Tensor, gallery: Tensor, pooling: Pooling, chunk: int) -> Tensor:
    """The relevance [B, N] of at most `chunk` queries [B, D]."""
    # A product of another shape rounds otherwise, and a query's scores would then hang on how many
    # share its chunk: every chunk is made the same shape.
    filled = torch.nn.functional.pad(queries, (0, 0, 0, chunk - len(queries)))  # [chunk, D]
    return relevance(filled, gallery, pooling, chunk=chunk)[: len(queries)]


def draw_from_scores(
    scores: Tensor, targets: Tensor, rule: NegativeRule, uniforms: Tensor
) -> Drawn:
    """Define the sets by scores [B, N] and draw from them, the rest as in `draw_negatives`."""
    mask, fell_back = negative_mask(scores, targets, rule)
    members = _members(mask)  # [all sets' sizes], places in the flattened mask, set by set
    rows = torch.arange(len(mask) + 1, device=mask.device)  # [B + 1]
    bounds = torch.searchsorted(members, rows * mask.shape[1])  # [B + 1]
    sizes = bounds.diff()  # [B]
    picks = _picks(sizes, uniforms.to(sizes.device))  # [B, T]
    columns = members[bounds[:-1, None] + picks] % mask.shape[1]  # [B, T]
    return _drawn(columns, sizes, fell_back)


def draw_from_corpus(images: int, targets: Tensor, uniforms: Tensor) -> Drawn:
    """Draw from everything but the target: of a pool of `images` for targets [B], unscored."""
    require_pool(images)
    require_columns(targets, images, "target")
    sizes = torch.full_like(targets, images - 1)  # [B]
    picks = _picks(sizes, uniforms.to(targets.device))  # [B, T]
    columns = picks + (picks >= targets.unsqueeze(1))  # [B, T]
    return _drawn(columns, sizes, torch.zeros_like(targets, dtype=torch.bool))


def _picks(sizes: Tensor, uniforms: Tensor) -> Tensor:
    """Draw from sets {0, ..., size - 1} without replacement; an exhausted set is drawn from anew.

    Args:
        sizes: [B], 1 or more.
        uniforms: [B, T].

    Returns:
        [B, T]: the t-th is decided by the t-th uniform and those before it.
    """
    picks = torch.empty(uniforms.shape, dtype=torch.int64, device=sizes.device)  # [B, T]
    for t in range(uniforms.shape[1]):
        drawn = t % sizes  # [B], so many since the set was last whole
        left = sizes - drawn  # [B]
        # A float below 1 times a whole number never rounds up to that number.
        pick = (uniforms[:, t] * left).long()  # [B], of those left
        since = torch.arange(t, device=sizes.device) >= (t - drawn).unsqueeze(1)  # [B, t]
        taken = picks[:, :t].where(since, sizes.unsqueeze(1)).sort(dim=1).values  # [B, t]
        for earlier in taken.unbind(dim=1):
            pick = pick + (pick >= earlier)
        picks[:, t] = pick
    return picks


def _members(mask: Tensor) -> Tensor:
    """Where a mask [B, N] is set, as places in it flattened; NumPy is faster on a CPU."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.flatten().nonzero().squeeze(1)


def _drawn(columns: Tensor, sizes: Tensor, fell_back: Tensor) -> Drawn:
    return Drawn(columns.int().cpu(), sizes.int().cpu(), fell_back.cpu())


def _joined(parts: Iterable[Drawn]) -> Drawn:
    kept = list(parts)
    return Drawn(
        torch.cat([part.columns for part in kept]),
        torch.cat([part.sizes for part in kept]),
        torch.cat([part.fell_back for part in kept]),
    )
