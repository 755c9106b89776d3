"""Power: how exact a study of a size would be, by simulation with participants and queries.

Many studies are drawn from one population. Over these, a statistic has a standard deviation sd:
a right 95% interval is 2 x 1.96 sd wide, clusters and all, and two metrics are told apart with a
power of 80% where they differ by (1.96 + 0.84) x the standard deviation of their difference
(paired: on the same sets). As sd shrinks with the root of the number of participants, the sizes
between those simulated follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.power.calibration import calibrated
from hsfiq.analysis.power.simulated_studies import SimulatedStudy, draw_study
from hsfiq.analysis.resampling.interval import LEVEL
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hsfiq.analysis.power.population import Population

POWER = 0.8
STUDIES = 200
PARTICIPANTS = (10, 20, 40, 60, 80, 120)
QUESTIONS = (25, 50)
WIDE = 2 * float(stats.norm.ppf((1 + LEVEL) / 2))
DETECTED = float(stats.norm.ppf((1 + LEVEL) / 2) + stats.norm.ppf(POWER))


@dataclass(frozen=True)
class Exactness:
    """How exact a statistic is in studies of one size.

    Attributes:
        mean: its mean over the simulated studies.
        width: the width of a right 95% interval.
        difference: the least difference of two metrics that is detected with a power of 80%.
    """

    mean: float
    width: float
    difference: float

    def to_json(self) -> dict[str, object]:
        """Return all of it by the attributes' names."""
        return dict(vars(self))


@dataclass(frozen=True)
class Size:
    """A study's size and what may be expected of it.

    Attributes:
        participants: how many answer.
        questions: how many questions each of them answers.
        exactness: by statistic.
    """

    participants: int
    questions: int
    exactness: Mapping[Statistic, Exactness]

    def to_json(self) -> dict[str, object]:
        """Return the size, and each statistic's exactness by its name."""
        found: dict[str, object] = {
            "participants": self.participants,
            "questions": self.questions,
        }
        return found | {name: each.to_json() for name, each in self.exactness.items()}


@dataclass(frozen=True)
class Needed:
    """How many participants are needed.

    Attributes:
        questions: how many questions each of them answers.
        for_width: by statistic, the least number for the wanted width.
        for_difference: by statistic, the least number for the wanted difference.
    """

    questions: int
    for_width: Mapping[Statistic, int]
    for_difference: Mapping[Statistic, int]

    def to_json(self) -> dict[str, object]:
        """Return {"questions", "for_width", "for_difference"}."""
        return {
            "questions": self.questions,
            "for_width": dict(self.for_width),
            "for_difference": dict(self.for_difference),
        }


@dataclass(frozen=True)
class Power:
    """What studies of several sizes would tell.

    Attributes:
        population: what they are drawn from.
        overlap: how many participants answer each question.
        width: the wanted width.
        difference: the wanted difference.
        n_studies: how many studies were drawn; a width is uncertain by 1 / sqrt(2 n_studies - 2).
        seed: of the draws.
        sizes: the sizes asked for.
        needed: for each number of questions.
    """

    population: Population
    overlap: int
    width: float
    difference: float
    n_studies: int
    seed: int
    sizes: tuple[Size, ...]
    needed: tuple[Needed, ...]

    def to_json(self) -> dict[str, object]:
        """Return all of it; {"level", "power"} are the interval's and the test's."""
        return {
            "population": self.population.to_json(),
            "overlap": self.overlap,
            "level": LEVEL,
            "power": POWER,
            "width": self.width,
            "difference": self.difference,
            "n_studies": self.n_studies,
            "seed": self.seed,
            "sizes": [size.to_json() for size in self.sizes],
            "needed": [needed.to_json() for needed in self.needed],
        }


def power(
    population: Population,
    *,
    participants: Sequence[int] = PARTICIPANTS,
    questions: Sequence[int] = QUESTIONS,
    overlap: int = 1,
    width: float = 0.05,
    difference: float = 0.05,
    n_studies: int = STUDIES,
    seed: int = 0,
) -> Power:
    """Simulate studies of several sizes.

    Args:
        population: what they are drawn from.
        participants: the numbers of participants; all that are in a larger study are in it too.
        questions: the numbers of questions of each participant.
        overlap: how many participants answer each question.
        width: of the interval, for which participants are counted.
        difference: of two metrics, likewise.
        n_studies: how many studies are drawn of each size.
        seed: of the draws.

    Returns:
        What may be expected of each size, and how many participants are needed.

    Raises:
        AnalysisError: a number makes no study, or the population's rho is out of reach.
    """
    _check(participants, questions, overlap, n_studies)
    for name, wanted in (("width", width), ("difference", difference)):
        if not 0 < wanted < 1:
            raise AnalysisError(name, f"{wanted} is not between 0 and 1", "try 0.05")
    sizes = sorted({(n, q) for n in participants for q in questions}, key=lambda size: size[::-1])
    measured: dict[tuple[int, int], list[NDArray[np.float64]]] = {size: [] for size in sizes}
    for drawn in _studies(
        population, (max(participants), max(questions)), overlap, n_studies, seed
    ):
        for size in sizes:
            part = drawn.part(*size)
            measured[size].append(np.stack([part.rhos(), part.tie_halves()]))
    of_size = {size: np.stack(parts, axis=2) for size, parts in measured.items()}
    return Power(
        population=population,
        overlap=overlap,
        width=width,
        difference=difference,
        n_studies=n_studies,
        seed=seed,
        sizes=tuple(Size(*size, _exactness(found)) for size, found in of_size.items()),
        needed=tuple(
            _needed(q, {n: of_size[n, q] for n in participants}, width, difference)
            for q in sorted(set(questions))
        ),
    )


def _check(
    participants: Sequence[int], questions: Sequence[int], overlap: int, n_studies: int
) -> None:
    for name, numbers, least in (
        ("participants", participants, 2),
        ("questions", questions, 2),
        ("overlap", (overlap,), 1),
        ("studies", (n_studies,), 2),
    ):
        if not numbers or min(numbers) < least:
            raise AnalysisError(name, f"{list(numbers)} is too few", f"ask for {least} or more")


def _studies(
    population: Population, size: tuple[int, int], overlap: int, n_studies: int, seed: int
) -> Iterator[SimulatedStudy]:
    """Draw one study after the other, so that their number needs no memory."""
    slopes = calibrated(population, seed)
    for number in range(n_studies):
        rng = np.random.default_rng((seed, 2, number))
        yield draw_study(population, slopes, size, overlap, rng)


def _spreads(found: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The sd of a metric's statistic and of two metrics' difference, (statistics, 2, studies)."""
    alone = np.sqrt(np.nanvar(found, axis=2, ddof=1).mean(axis=1))
    return alone, np.nanstd(found[:, 0] - found[:, 1], axis=1, ddof=1)


def _exactness(found: NDArray[np.float64]) -> dict[Statistic, Exactness]:
    alone, between = _spreads(found)
    means = np.nanmean(found, axis=(1, 2))
    return {
        name: Exactness(float(mean), float(WIDE * sd), float(DETECTED * sd_difference))
        for name, mean, sd, sd_difference in zip(STATISTICS, means, alone, between, strict=True)
    }


def _needed(
    questions: int, found: Mapping[int, NDArray[np.float64]], width: float, difference: float
) -> Needed:
    """Count participants: sd^2 x their number hardly changes with the size, so it is averaged."""
    spreads = np.array([np.stack(_spreads(each)) ** 2 * n for n, each in found.items()])
    alone, between = spreads.mean(axis=0)  # each (statistics,)
    return Needed(
        questions,
        {name: _least(WIDE**2 * each, width) for name, each in zip(STATISTICS, alone, strict=True)},
        {
            name: _least(DETECTED**2 * each, difference)
            for name, each in zip(STATISTICS, between, strict=True)
        },
    )


def _least(at_one: float, wanted: float) -> int:
    return max(2, ceil(at_one / wanted**2))
