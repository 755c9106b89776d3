"""`ranking`: three to five sets in order; ties only where the study allows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hsfiq.errors import Refused
from hsfiq.kinds.kind import (
    Gold,
    Kind,
    Rules,
    ShownAnswer,
    require_keys,
    require_whole_number,
    whole_numbers,
)


def read(given: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The rank of each set as shown, 1 for the best; of tied sets, both have the better rank."""
    require_keys(given, "ranks")
    ranks = given["ranks"]
    if not isinstance(ranks, list) or len(ranks) != rules.n_sets:
        raise Refused(f"judgement: ranks must have the ranks of {rules.n_sets} sets")
    read_ranks = [require_whole_number("a rank", rank, 1, rules.n_sets) for rank in ranks]
    if len(set(read_ranks)) < len(read_ranks) and not rules.ties:
        raise Refused("this study does not allow ties: each set must have another rank")
    return {"ranks": [1 + sum(other < rank for other in read_ranks) for rank in read_ranks]}


def expected(text: str, rules: Rules) -> dict[str, Any]:
    """`2 1 3`: the sets, best first; of those left out, every order after them is right."""
    return {"order": whole_numbers(text, rules.n_sets)}


def summary(judgement: Mapping[str, Any]) -> str:
    return "ranks: " + " ".join(map(str, judgement["ranks"]))


def repeats(first: ShownAnswer, again: ShownAnswer, _rules: Rules) -> bool:
    """The same set has rank 1, or the same sets if several are tied."""
    return best_places(first) == best_places(again)


def best_places(answer: ShownAnswer) -> set[int]:
    ranks = zip(answer.sets, answer.values["ranks"], strict=True)
    return {place for place, rank in ranks if rank == 1}


def puts_last(expected: str, values: Mapping[str, Any]) -> bool:
    """The planted random set, the one with this number, comes after every other one."""
    ranks = list(values["ranks"])
    return bool(ranks.pop(int(expected) - 1) > max(ranks))


GOLD = Gold(
    passes=puts_last,
    words=lambda expected: f"set {expected}, of random images, should come last",
)

RANKING = Kind(
    name="ranking",
    asks="puts three to five sets in order",
    n_sets=lambda options: options.sets,
    options=frozenset(
        {
            *("design.sets", "design.preference_ties", "checks.gold", "checks.repeated"),
            *("wording.rank", "wording.irrelevant"),
        }
    ),
    expected=expected,
    repeats=repeats,
    gold=GOLD,
    read=read,
    summary=summary,
)
