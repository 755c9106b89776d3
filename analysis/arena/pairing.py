"""How evenly the sessions are divided among the pairs of systems, and over the two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hsfiq.analysis.arena.votes import Votes
from hsfiq.analysis.json_values import JsonRecord


@dataclass(frozen=True)
class PairOfSystems(JsonRecord):
    """What two systems have in common.

    Attributes:
        system_first: the votes in which `system` was list 1; half of them if the sides are
            balanced.
    """

    system: str
    other: str
    sessions: int
    votes: int
    system_first: int


@dataclass(frozen=True)
class Pairing(JsonRecord):
    """Every pair of systems; `fewest` and `most` sessions of a pair. Equal ones are balanced."""

    pairs: Sequence[PairOfSystems]
    fewest: int
    most: int


def pairing(votes: Votes) -> Pairing:
    first, second = (votes.rows[name].to_numpy(np.intp) for name in ("first", "second"))
    sessions = votes.rows["question_id"]
    pairs = []
    for i, j in combinations(range(len(votes.names)), 2):
        is_first = (first == i) & (second == j)
        between = is_first | ((first == j) & (second == i))
        pairs.append(
            PairOfSystems(
                votes.names[i],
                votes.names[j],
                int(sessions[between].nunique()),
                int(between.sum()),
                int(is_first.sum()),
            )
        )
    counts = [pair.sessions for pair in pairs] or [0]
    return Pairing(tuple(pairs), min(counts), max(counts))
