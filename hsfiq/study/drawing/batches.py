"""Dividing what a study asks about among its participants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from hsfiq.study.config import StudyConfig


class Placeable(Protocol):
    """What a question may be about."""

    @property
    def triplet_id(self) -> int: ...

    @property
    def category(self) -> str: ...


P = TypeVar("P", bound=Placeable)


def batches(pairs: Sequence[P], config: StudyConfig, rng: Random) -> list[list[P]]:
    """Divide the pairs into batches of one category each (unless mixed), no triplet twice.

    Each pass over the pairs has every pair once, so the copies of a pair are in different batches.
    The last batches may be smaller.
    """
    design = config.design
    size = design.questions_per_form * design.forms_per_participant
    by_category: dict[str, list[P]] = defaultdict(list)
    for pair in pairs:
        by_category["" if design.categories == "mixed" else pair.category].append(pair)
    divided: list[list[P]] = []
    for category in sorted(by_category):
        members = by_category[category]
        shared = rng.sample(members, round(design.overlap_share * len(members)))
        packer: Packer[P] = Packer(size)
        for copy in range(design.annotators_per_query):
            pairs_of_pass = members if copy == 0 else shared
            packer.add(rng.sample(pairs_of_pass, len(pairs_of_pass)))
        divided += packer.batches
    return divided


class Packer(Generic[P]):
    """Fills batches of a given size, with no triplet twice in one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches: list[list[P]] = []
        self._triplets: list[set[int]] = []
        self._first_open = 0

    def add(self, pairs: Sequence[P]) -> None:
        for pair in pairs:
            index = self._place_for(pair.triplet_id)
            self.batches[index].append(pair)
            self._triplets[index].add(pair.triplet_id)
            while self._first_open < len(self.batches) and self._is_full(self._first_open):
                self._first_open += 1

    def _place_for(self, triplet_id: int) -> int:
        for index in range(self._first_open, len(self.batches)):
            if not self._is_full(index) and triplet_id not in self._triplets[index]:
                return index
        self.batches.append([])
        self._triplets.append(set())
        return len(self.batches) - 1

    def _is_full(self, index: int) -> bool:
        return len(self.batches[index]) == self.size
