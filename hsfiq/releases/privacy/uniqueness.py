"""How many participants gave the same answers at the end, such as age and gender together.

A participant whom nobody shares them with can be recognised by whoever knows these facts. The
smallest group is the k of k-anonymity (Sweeney 2002). Answers are compared as they are; free
texts are not compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

TABLE = "participant_answers"
ALIKE = "k_anonymity"
"""Its key in the manifest."""
LEAST_K = 5
"""Below it, the export warns."""


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """How alike participants are.

    `fields` are the questions whose answers are compared, `k` is the size of the smallest group of
    `participants` with the same answers, and `unique` counts those who are alone in theirs.
    """

    fields: tuple[str, ...]
    participants: int
    k: int
    unique: int

    def facts(self) -> dict[str, Any]:
        """As the manifest has it."""
        return asdict(self) | {"table": TABLE, "fields": list(self.fields)}

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


def compared_fields(questions: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The fields of the questions at the end, each with its type, that ask for no free text."""
    return tuple(field for field, kind in questions if kind != "text")


def uniqueness(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> Uniqueness | None:
    """Of rows of `participant_answers`; None if there is nothing to compare."""
    answers: dict[str, set[tuple[str, Any, Any]]] = defaultdict(set)
    for row in rows:
        own = answers[row["participant_id"]]
        if row["field"] in fields:
            own.add((row["field"], row["number"], row["value"]))
    groups = Counter(frozenset(own) for own in answers.values())
    if not groups or not fields:
        return None
    alone = sum(n == 1 for n in groups.values())
    return Uniqueness(tuple(fields), len(answers), min(groups.values()), alone)
