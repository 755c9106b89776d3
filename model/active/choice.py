"""Choosing pairs from the candidates, balanced over categories and systems.

torch is needed only if a scorer's uncertainty is estimated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from hsfiq.active.candidates import Candidate, Candidates, PossibleSet
from hsfiq.active.stratify import balanced

if TYPE_CHECKING:
    from hsfiq.model.active.uncertainty import Uncertainty


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen pairs, in the order in which they were chosen.

    Attributes:
        about: how they were chosen, for the releases of the new study.
        expected: information of the answers to them, and to as many random pairs, in nats; None
            without a scorer.
    """

    pairs: tuple[Candidate, ...]
    sets: tuple[PossibleSet, ...]
    about: dict[str, Any]
    expected: tuple[float, float] | None
    missing: tuple[str, ...]  # images without which pairs could not be considered
    uncertainty: Mapping[str, Any] | None = None  # its source; None without a scorer

    def to_json(self, candidates: Candidates) -> dict[str, Any]:
        systems = Counter(candidates.systems[key] for pair in self.pairs for key in pair.systems)
        expected, expected_of_random = self.expected or (None, None)
        return {
            "chosen_by": self.about,
            "pairs": len(self.pairs),
            "candidates": len(candidates.pairs),
            "asked_before": candidates.n_asked,
            "held_out_triplets": candidates.n_held_out,
            "categories": dict(sorted(Counter(pair.category for pair in self.pairs).items())),
            "systems": dict(sorted(systems.items())),
            "expected_information": expected,
            "expected_information_of_random": expected_of_random,
            "uncertainty": self.uncertainty,
            "missing_images": list(self.missing),
        }


def require_enough(candidates: Candidates, n: int, seed: int) -> None:
    """Raise `NothingToDo` if there are fewer candidates, before hours of encoding."""
    balanced(candidates.pairs, n, min, rng_of(seed))


def choose_pairs(
    candidates: Candidates, uncertainty: Uncertainty | None, n: int, strategy: str, seed: int
) -> Choice:
    """Choose n pairs by "information" or at "random"; at random if there is no scorer."""
    about: dict[str, Any] = {"strategy": strategy, "seed": seed}
    rng = rng_of(seed)
    if uncertainty is None:
        places = balanced(candidates.pairs, n, rng.choice, rng)
        pairs = tuple(candidates.pairs[place] for place in places)
        return Choice(pairs, candidates.sets, about, None, ())
    information = at_random = uncertainty.information()
    places = balanced(uncertainty.pairs, n, rng.choice, rng)
    for place in places:
        at_random.take(place)
    if strategy == "information":
        about |= uncertainty.about
        information = uncertainty.information()
        places = balanced(uncertainty.pairs, n, information.take_best, rng_of(seed))
    return Choice(
        pairs=tuple(uncertainty.pairs[place] for place in places),
        sets=uncertainty.sets,
        about=about,
        expected=(information.total, at_random.total),
        missing=uncertainty.missing,
        uncertainty=uncertainty.about,
    )


def rng_of(seed: int) -> Random:
    return Random(f"next:{seed}")  # noqa: S311 (a seeded draw, not a secret)
