"""How relevant an image is to a query, before the temperature, and where the target ranks.

An image is L vectors, a query one; their dot products are pooled over L (CIRQRS eq. 1 leaves open
how; both papers' BLIP-2 takes the largest). Nothing here is divided by the temperature, which
changes no order: training does that in its loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from torch import Tensor

    from hsfiq.model.encoders.protocol import Pooling


@torch.no_grad()
def relevance(queries: Tensor, gallery: Tensor, pooling: Pooling, *, chunk: int) -> Tensor:
    """Score every query against every image, without gradients.

    Args:
        queries: [B, D], on the device that is to compute.
        gallery: [N, L, D]; may be of another type or lie elsewhere, it is brought in by parts.
        pooling: over an image's L vectors.
        chunk: images at a time; the memory beyond the scores is B x chunk x L numbers.

    Returns:
        [B, N] float32.
    """
    scores = torch.empty(len(queries), len(gallery), device=queries.device)  # [B, N]
    for start in range(0, len(gallery), chunk):
        images = gallery[start : start + chunk].to(queries)  # [n, L, D]
        scores[:, start : start + chunk] = _pooled(queries, images, pooling)
    return scores


def _pooled(queries: Tensor, images: Tensor, pooling: Pooling) -> Tensor:
    """[B, D] and [n, L, D] -> [B, n]."""
    if pooling == "mean":
        # The mean of dot products is the dot product with the mean.
        return queries @ images.mean(dim=1).T  # [B, n]
    products = queries @ images.flatten(0, 1).T  # [B, n L]
    return products.view(-1, *images.shape[:2]).amax(dim=2)  # [B, n, L] -> [B, n]


def paired_relevance(queries: Tensor, gallery: Tensor, pooling: Pooling) -> Tensor:
    """Score each query against an image of its own, with gradients.

    Args:
        queries: [B, D].
        gallery: [B, L, D].
        pooling: over an image's L vectors.

    Returns:
        [B].
    """
    if pooling == "mean":
        return (queries * gallery.mean(dim=1)).sum(dim=1)  # [B]
    return (gallery @ queries.unsqueeze(2)).squeeze(2).amax(dim=1)  # [B, L] -> [B]


def target_ranks(scores: Tensor, targets: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Rank the target among the pool, the best being 1.

    Ahead of the target are the images scored above it, and of those scored the same the ones that
    come before it in the pool: so a scorer that cannot tell images apart gains nothing by it.

    Args:
        scores: [B, N].
        targets: [B] columns.
        excluded: [B] columns that do not count: CIRR takes the reference out of the pool.

    Returns:
        [B] int64.

    Raises:
        UnreadableInput: a column outside the pool, the target excluded, a score that is no number.
    """
    require_columns(targets, scores.shape[1], "target")
    require_finite(scores)
    own = targets.unsqueeze(1)  # [B, 1]
    places = torch.arange(scores.shape[1], device=scores.device)  # [N]
    target_scores = scores.gather(1, own)  # [B, 1]
    ahead = (scores > target_scores) | ((scores == target_scores) & (places < own))  # [B, N]
    if excluded is not None:
        require_columns(excluded, scores.shape[1], "excluded image")
        if (same := (excluded == targets).nonzero()).numel():
            raise UnreadableInput(
                f"query {int(same[0])}", "its target is excluded from the pool", "check its triplet"
            )
        ahead = ahead.scatter(1, excluded.unsqueeze(1), value=False)
    return ahead.sum(dim=1) + 1


def require_columns(columns: Tensor, images: int, what: str) -> None:
    """Refuse columns [B] that are none of a pool's `images`.

    Raises:
        UnreadableInput: naming the first of them, by its row.
    """
    outside = ((columns < 0) | (columns >= images)).nonzero()
    if outside.numel():
        row = int(outside[0])
        raise UnreadableInput(
            f"query {row}",
            f"its {what} is not in the pool (column {int(columns[row])} of {images})",
            "add the image to the pool or leave the query out",
        )


def require_finite(scores: Tensor) -> None:
    """Refuse scores [B, N] that are infinite or no numbers.

    Raises:
        UnreadableInput: the scorer is to blame.
    """
    # The sum is several times cheaper to look at and finite only if all are; but it may overflow.
    if not scores.sum().isfinite() and not scores.isfinite().all():
        raise UnreadableInput(
            "scorer",
            "gives scores that are infinite or not a number: it has diverged",
            "go back to a sound checkpoint and lower the learning rate",
        )
