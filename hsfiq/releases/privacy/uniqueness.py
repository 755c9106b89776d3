"""How many participants gave the same answers at the end, such as age and gender together.

A participant whom nobody shares them with can be recognised by whoever knows these facts. The
smallest group is the k of k-anonymity (Sweeney 2002). Texts and numbers are compared as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_K = 5
"""Below it, the export warns."""


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """`k` is the size of the smallest group, `unique` counts the participants alone in theirs."""

    participants: int
    k: int
    unique: int

    def warnings(self) -> list[str]:
        if self.k >= LEAST_K:
            return []
        few = (
            f"{self.unique:,} of {self.participants:,} participants are the only ones with their "
            "answers"
            if self.k == 1
            else f"as few as {self.k} participants share their answers"
        )
        warning = (
            f"participant_answers: {few} (k = {self.k}), so somebody who knows them could "
            "recognise them; --without participant-answers leaves the table out"
        )
        return [warning]


def uniqueness(rows: Iterable[Mapping[str, Any]], ignored: Collection[str] = ()) -> Uniqueness:
    """Of rows of `participant_answers`; the fields that are `ignored` ask for free texts.

    Raises:
        ValueError: there are no participants.
    """
    answers: dict[str, set[tuple[str, Any, Any]]] = defaultdict(set)
    for row in rows:
        own = answers[row["participant_id"]]
        if row["field"] not in ignored:
            own.add((row["field"], row["number"], row["value"]))
    groups = Counter(frozenset(own) for own in answers.values())
    if not groups:
        raise ValueError("no participants")
    return Uniqueness(len(answers), min(groups.values()), sum(n == 1 for n in groups.values()))
