"""Where the target ranks among a corpus, and checks of columns and scores."""

from __future__ import annotations

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput


def target_ranks(scores: Tensor, targets: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Rank targets [B] among scores [B, N], the best being 1: [B] int64.

    Images of the target's score that come before it in the pool count as ranked above it, so equal
    scores are no advantage. Columns in `excluded` [B] do not count: CIRR takes the reference out of
    the pool.

    Raises:
        UnreadableInput: a column outside the pool, the target excluded, or a score not finite.
    """
    require_columns(targets, scores.shape[1], "target")
    require_finite(scores)
    column = targets.unsqueeze(1)  # [B, 1]
    places = torch.arange(scores.shape[1], device=scores.device)  # [N]
    target_scores = scores.gather(1, column)  # [B, 1]
    ahead = (scores > target_scores) | ((scores == target_scores) & (places < column))  # [B, N]
    if excluded is not None:
        require_columns(excluded, scores.shape[1], "excluded image")
        if (same := (excluded == targets).nonzero()).numel():
            raise UnreadableInput(
                f"query {int(same[0])}", "its target is excluded from the pool", "check its triplet"
            )
        ahead = ahead.scatter(1, excluded.unsqueeze(1), value=False)
    return ahead.sum(dim=1) + 1


def require_columns(columns: Tensor, n_images: int, role: str) -> None:
    """Raise UnreadableInput if a column [B] is not in a pool of `n_images`."""
    outside = ((columns < 0) | (columns >= n_images)).nonzero()
    if outside.numel():
        row = int(outside[0])
        raise UnreadableInput(
            f"query {row}",
            f"its {role} is not in the pool (column {int(columns[row])} of {n_images})",
            "add the image to the pool or leave the query out",
        )


def require_finite(scores: Tensor) -> None:
    """Raise UnreadableInput if a score [B, N] is not finite: the scorer has diverged."""
    # Checking the sum is several times cheaper; it is finite only if all scores are, but it may
    # overflow where they all are.
    if not scores.sum().isfinite() and not scores.isfinite().all():
        raise UnreadableInput(
            "scorer",
            "gives scores that are infinite or not a number: it has diverged",
            "use an earlier checkpoint and a lower learning rate",
        )
