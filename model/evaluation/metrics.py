"""What one ranked list is worth. Pure Python: a list of fifty is short.

A list that ends early may leave it open: then the value is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def recall(ranked: Sequence[str], target: str, k: int, n_candidates: int | None) -> float | None:
    """Recall@k: 1 if the target is among the first k, else 0.

    Args:
        ranked: candidates, best first, each once.
        target: the one image that counts.
        k: places that count.
        n_candidates: of the corpus; None where it is not known.

    Returns:
        None if the list ends before place k without the target, and is not the whole corpus.
    """
    if target in ranked:
        return float(ranked.index(target) < k)
    return 0.0 if settled(ranked, k, n_candidates) else None


def average_precision(
    ranked: Sequence[str], truths: Collection[str], k: int, n_candidates: int | None
) -> float | None:
    """AP@k over several truths (CIRCO's paper and code).

    The precisions at the places of the truths among the first k, summed, over min(truths, k).

    Args:
        ranked: candidates, best first, each once.
        truths: every image that counts.
        k: places that count.
        n_candidates: of the corpus; None where it is not known.

    Returns:
        None if the list ends before place k without all truths, and is not the whole corpus.
    """
    hits, precisions = 0, 0.0
    for place, image in enumerate(ranked[:k], start=1):
        if image in truths:
            hits += 1
            precisions += hits / place
    if hits < len(truths) and not settled(ranked, k, n_candidates):
        return None
    return precisions / min(len(truths), k)


def settled(ranked: Sequence[str], k: int, n_candidates: int | None) -> bool:
    """Whether nothing that is not in the list can stand among the first k."""
    return len(ranked) >= k or len(ranked) == n_candidates
