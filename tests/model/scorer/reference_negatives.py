"""The negative sets of one query by the papers' definitions: slow, for comparison."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from hsfiq.model.scorer.negatives import NegativeRule

    Scores = Sequence[np.float32]


def negatives(scores: Scores, target: int, rule: NegativeRule) -> tuple[set[int], bool]:
    """The set and whether it is the fallback."""
    other_images = [i for i in range(len(scores)) if i != target]
    below = [i for i in best_first(scores) if scores[i] < scores[target]]
    if rule.strategy == "corpus":
        candidates = other_images
    elif rule.strategy == "top-k":
        candidates = [i for i in best_first(scores) if i != target][: rule.k]
    elif rule.strategy in ("after-target", "cirqrs"):
        candidates = below[: rule.k]
    elif rule.strategy == "qure":
        candidates = paper_qure(scores, target)
    elif rule.strategy == "qure-bounded":
        near = [i for i in range(len(scores)) if i not in below[rule.k :]]
        candidates = [near[i] for i in paper_qure([scores[i] for i in near], near.index(target))]
    else:
        assert rule.threshold is not None
        candidates = published_qure(scores, below, rule.threshold)
    if candidates:
        return set(candidates), False
    return set(below or other_images), True


def best_first(scores: Scores) -> list[int]:
    """`sorted` keeps the corpus order of equal scores."""
    return sorted(range(len(scores)), key=lambda i: -scores[i])


def paper_qure(scores: Scores, target: int) -> list[int]:
    """QuRe eq. 4 to 7, indices from 0; empty without two suitable drops."""
    images = best_first(scores)
    s = [scores[i] for i in images]
    degradations = [
        (s[j] - s[j + 1], j) for j in range(len(s)) if s[j] < scores[target] and j + 1 < len(s)
    ]
    steepest = sorted((d for d in degradations if d[0] > 0), key=lambda d: (-d[0], d[1]))[:2]
    if len(steepest) < 2:
        return []
    (_, k1), (_, k2) = steepest
    return [images[j] for j in range(min(k1, k2) + 1, max(k1, k2) + 1)]


def published_qure(scores: Scores, below: list[int], threshold: int) -> list[int]:
    """The loop of the published code over the images below the target."""
    drops = [scores[a] - scores[b] for a, b in pairwise(below)]
    order = sorted(range(len(drops)), key=lambda j: -drops[j])
    for first, second in pairwise(order):
        if drops[second] > 0 and abs(first - second) > threshold:
            return below[min(first, second) + 1 : max(first, second) + 1]
    return []


def draws(members: set[int], uniforms: Sequence[float]) -> list[int]:
    """Draw without replacement, and start over when no member is left."""
    remaining: list[int] = []
    drawn = []
    for uniform in uniforms:
        remaining = remaining or sorted(members)
        drawn.append(remaining.pop(int(uniform * len(remaining))))
    return drawn
