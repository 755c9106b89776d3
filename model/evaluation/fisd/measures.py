"""The values of a query's list. Pure Python.

Whether the reference is a candidate decides some aspects: a system that ignores "no" returns the
reference itself. The paper does not say, so every figure is given both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Literal

from hsfiq.model.evaluation.benchmarks import Query

KS = (1, 5, 10)
MRR, NEGATIVE_ABOVE, REFERENCE_FIRST = "mrr", "hard_negative_above_target", "reference_first"

Candidates = Literal["with_reference", "without_reference"]
CANDIDATES: tuple[Candidates, ...] = ("with_reference", "without_reference")

FIGURES: dict[Candidates, tuple[str, ...]] = {
    "with_reference": (*(f"recall@{k}" for k in KS), MRR, NEGATIVE_ABOVE, REFERENCE_FIRST),
    "without_reference": (*(f"recall@{k}" for k in KS), MRR, NEGATIVE_ABOVE),
}

TITLES: dict[Candidates, str] = {
    "with_reference": "the reference is a candidate",
    "without_reference": "the reference is no candidate",
}


def column(candidates: Candidates, figure: str) -> str:
    return f"{candidates}.{figure}"


def query_values(query: Query, ranked: Sequence[str], corpus_size: int) -> dict[str, float | None]:
    """All values by `column`; None where a list that is cut does not determine it."""
    values = {}
    for candidates in CANDIDATES:
        keeps = candidates == "with_reference"
        kept = [image for image in ranked if keeps or image != query.reference]
        size = corpus_size - (not keeps)
        for k in KS:
            values[column(candidates, f"recall@{k}")] = recall(query, kept, min(k, size))
        place = kept.index(query.target) + 1 if query.target in kept else None
        values[column(candidates, MRR)] = None if place is None else 1 / place
        values[column(candidates, NEGATIVE_ABOVE)] = negatives_above(query, kept)
        if keeps:
            first = float(kept[0] == query.reference) if kept else None
            values[column(candidates, REFERENCE_FIRST)] = first
    return values


def recall(query: Query, ranked: Sequence[str], k: int) -> float | None:
    if query.target in ranked[:k]:
        return 1.0
    return 0.0 if len(ranked) >= k else None


def negatives_above(query: Query, ranked: Sequence[str]) -> float | None:
    """The share of the hard negatives that come before the target."""
    place = {image: number for number, image in enumerate(ranked)}
    last = len(ranked)
    target = place.get(query.target or "", last)
    negatives = [place.get(image, last) for image in query.hard_negatives]
    if target == last and last in negatives:
        return None  # neither is in the list
    return fsum(negative < target for negative in negatives) / len(negatives)
