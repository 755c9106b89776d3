"""Choose a study's pairs with equal numbers for every category and for every two systems.

The caller ranks only pairs of the same category and systems, so a scorer that is uncertain about
one system's sets does not fill the study with that system.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random

from hsfiq.active.candidates import Candidate
from hsfiq.errors import UnreadableInput

Pick = Callable[[Sequence[int]], int]
"""Picks one of these indices of candidates; called once for each pair that is chosen."""


def balanced(pairs: Sequence[Candidate], n: int, pick: Pick, rng: Random) -> list[int]:
    """Choose n pairs, no triplet twice; return their indices in the order of choice.

    The next pair is of the category with the fewest chosen pairs, and of the two systems with the
    fewest in that category, then with the fewest overall; equal ones are drawn at random. `pick`
    chooses among the pairs of one category and two systems whose triplets are still unused.
    """
    cells: dict[tuple[str, tuple[int, int]], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        cells[pair.category, pair.systems].append(index)
    of_category, of_systems = Counter[str](), Counter[tuple[int, int]]()
    of_cell = Counter[tuple[str, tuple[int, int]]]()
    triplets: set[int] = set()
    chosen: list[int] = []
    while cells and len(chosen) < n:
        least = min(of_category[category] for category, _ in cells)
        cell = min(
            (key for key in sorted(cells) if of_category[key[0]] == least),
            key=lambda key: (of_cell[key], of_systems[key[1]], rng.random()),
        )
        cells[cell] = [index for index in cells[cell] if pairs[index].triplet_id not in triplets]
        if not cells[cell]:
            del cells[cell]
            continue
        index = pick(cells[cell])
        chosen.append(index)
        triplets.add(pairs[index].triplet_id)
        of_category[cell[0]] += 1
        of_systems[cell[1]] += 1
        of_cell[cell] += 1
    if len(chosen) < n:
        raise UnreadableInput(
            "--n",
            f"{n:,} pairs are requested, but only {len(chosen):,} triplets have an unused pair",
            "request fewer, or import more runs",
        )
    return chosen
