"""What an annotator sees of a question, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hsfiq.collect.protocol import StudyInfo
from hsfiq.drawn import SimulatedAnnotator
from hsfiq.drawn.garments import Garment
from hsfiq.drawn.reading import set_utility_as_read
from hsfiq.drawn.triplets import DrawnTriplet


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question as it is shown.

    Attributes:
        readings: the triplets that the text may mean.
        sets: the garments of each set's images, in the order shown.
        progress: 0 at the first question and 1 at the last.
    """

    study: StudyInfo
    readings: Sequence[DrawnTriplet]
    sets: Sequence[Sequence[Garment]]
    progress: float

    def utilities(self) -> list[float]:
        """The utility of each set."""
        return [set_utility_as_read(self.readings, garments) for garments in self.sets]


SimulatedJudgement = Callable[[SimulatedAnnotator, Random, JudgedQuestion], dict[str, Any]]
