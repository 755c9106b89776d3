"""Drawing which two systems each search of an arena has, and on which side each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from random import Random

from hsfiq.study.drawing.colouring import balanced_colours

Systems = tuple[int, int]
"""The system of side 1 and that of side 2."""


def draw_sides(
    batches: Sequence[Sequence[int]], systems: Sequence[int], rng: Random
) -> list[list[Systems]]:
    """Two systems for each search; `batches` are the queries of each participant, in their order.

    The numbers of searches of any two pairs of systems differ by at most 1: in all, for each query,
    and for each participant. A participant meets every pair before any pair comes again. For each
    pair, the numbers of searches with either system on side 1 differ by at most 1, too.
    """
    pairs = ordered_pairs(systems)
    rng.shuffle(pairs)
    places = [(number, query) for number, batch in enumerate(batches) for query in batch]
    met = balanced_colours(places, len(pairs), rng)
    people_and_pairs = [(number, pair) for (number, _), pair in zip(places, met, strict=True)]
    swapped = balanced_colours(people_and_pairs, 2, rng)
    drawn = [
        (pairs[pair][swap], pairs[pair][1 - swap]) for pair, swap in zip(met, swapped, strict=True)
    ]
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + len(batch))
    return [drawn[start:end] for start, end in pairwise(ends)]


def ordered_pairs(systems: Sequence[int]) -> list[Systems]:
    """All pairs of systems; each system comes first in half of its pairs, or nearly so."""
    return [
        (systems[low], systems[high]) if (low + high) % 2 else (systems[high], systems[low])
        for low, high in combinations(range(len(systems)), 2)
    ]
