"""Choosing pairs for a study evenly: as many of each category, and of each two systems.

What is best among the pairs of one category and two systems is the caller's to say; so a scorer
that is unsure of one system's sets alone does not make a study of that system.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random

from hsfiq.active.candidates import Candidate
from hsfiq.errors import UnreadableInput

Pick = Callable[[Sequence[int]], int]
"""Takes one of these places of candidates; told of each choice by being asked for it."""


def balanced(pairs: Sequence[Candidate], n: int, pick: Pick, rng: Random) -> list[int]:
    """Choose n pairs, no triplet twice.

    The category with the fewest chosen comes next, and in it the two systems with the fewest, first
    in that category, then in all; chance decides between equals.

    Args:
        pairs: to choose from.
        n: how many.
        pick: takes one of those that are open: of one category and two systems, their triplets
            not chosen yet.
        rng: the generator; the same state and pairs give the same choice.

    Returns:
        n places in `pairs`, in the order in which they were chosen.

    Raises:
        UnreadableInput: there are fewer than n.
    """
    cells: dict[tuple[str, tuple[int, int]], list[int]] = defaultdict(list)
    for place, it in enumerate(pairs):
        cells[it.category, it.systems].append(place)
    of_category, of_systems = Counter[str](), Counter[tuple[int, int]]()
    of_cell = Counter[tuple[str, tuple[int, int]]]()
    triplets: set[int] = set()
    chosen: list[int] = []
    while cells and len(chosen) < n:
        least = min(of_category[category] for category, _ in cells)
        cell = min(
            (it for it in sorted(cells) if of_category[it[0]] == least),
            key=lambda it: (of_cell[it], of_systems[it[1]], rng.random()),
        )
        cells[cell] = [it for it in cells[cell] if pairs[it].triplet_id not in triplets]
        if not cells[cell]:
            del cells[cell]
            continue
        place = pick(cells[cell])
        chosen.append(place)
        triplets.add(pairs[place].triplet_id)
        of_category[cell[0]] += 1
        of_systems[cell[1]] += 1
        of_cell[cell] += 1
    if len(chosen) < n:
        raise UnreadableInput(
            "--n",
            f"{n:,} pairs are asked for, and {len(chosen):,} triplets have one that is not asked",
            "ask for fewer, or import more runs",
        )
    return chosen
