"""Power: how precise a study of a given size would be, by simulating participants and queries.

Many studies are drawn from one population. Over these, a statistic has a standard deviation sd: a
valid 95% interval is 2 x 1.96 sd wide, with clustering accounted for, and a difference between two
metrics is detected with a power of 80% if it is (1.96 + 0.84) x the standard deviation of their
difference (paired: on the same sets). Since sd shrinks with the square root of the number of
participants, the required numbers follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.power.calibration import calibrate
from hsfiq.analysis.power.population import Population
from hsfiq.analysis.power.simulated_studies import draw_study
from hsfiq.analysis.resampling.spread import LEVEL
from hsfiq.analysis.sensitivity.conclusions import STATISTICS, Statistic

POWER = 0.8
STUDIES = 200
PARTICIPANTS = (10, 20, 40, 60, 80, 120)
QUESTIONS = (25, 50)
WIDTH = 2 * float(stats.norm.ppf((1 + LEVEL) / 2))
DETECTABLE = float(stats.norm.ppf((1 + LEVEL) / 2) + stats.norm.ppf(POWER))


Counts = dict[Statistic, int]


@dataclass(frozen=True)
class Precision(JsonRecord):
    """The precision of a statistic in studies of one size.

    Attributes:
        mean: over the simulated studies.
        width: of a valid 95% interval.
        difference: the smallest difference of two metrics detected with a power of 80%.
    """

    mean: float
    width: float
    difference: float


@dataclass(frozen=True)
class Size(JsonRecord):
    """The size of a study and its precision; each participant answers so many questions."""

    participants: int
    questions: int
    precision: Mapping[Statistic, Precision]

    def to_json(self) -> dict[str, object]:
        fields = super().to_json()
        del fields["precision"]
        return fields | {name: each.to_json() for name, each in self.precision.items()}


@dataclass(frozen=True)
class Needed(JsonRecord):
    """The numbers of participants that reach the target width and the target difference."""

    questions: int
    for_width: Mapping[Statistic, int]
    for_difference: Mapping[Statistic, int]


@dataclass(frozen=True)
class Power(JsonRecord):
    """The precision of studies of several sizes.

    Attributes:
        overlap: how many participants answer each question.
        width, difference: the targets.
        n_studies: the number of simulated studies; the relative standard error of a width is
            1 / sqrt(2 n_studies - 2).
    """

    population: Population
    overlap: int
    level: float
    power: float
    width: float
    difference: float
    n_studies: int
    seed: int
    sizes: tuple[Size, ...]
    needed: tuple[Needed, ...]


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
    """Simulate studies with these numbers of participants, and of questions of each of them.

    A smaller study is part of the larger ones; `overlap` participants answer each question. The
    targets are the `width` of the interval and the `difference` of two metrics. AnalysisError: a
    number is too small, or the population's rho is out of reach.
    """
    require_possible(participants, questions, overlap, width, difference, n_studies)
    sizes = sorted({(n, q) for n in participants for q in questions}, key=lambda size: size[::-1])
    measured: dict[tuple[int, int], list[FloatArray]] = {size: [] for size in sizes}
    slopes, largest = calibrate(population, seed), (max(participants), max(questions))
    for number in range(n_studies):  # one at a time, to save memory
        rng = np.random.default_rng((seed, 2, number))
        drawn = draw_study(population, slopes, largest, overlap, rng)
        for size in sizes:
            part = drawn.part(*size)
            measured[size].append(np.stack([part.rhos(), part.tie_halves()]))
    of_size = {size: np.stack(parts, axis=2) for size, parts in measured.items()}
    return Power(
        population=population,
        overlap=overlap,
        level=LEVEL,
        power=POWER,
        width=width,
        difference=difference,
        n_studies=n_studies,
        seed=seed,
        sizes=tuple(Size(*size, _precision(samples)) for size, samples in of_size.items()),
        needed=tuple(
            _needed(q, {n: of_size[n, q] for n in participants}, width, difference)
            for q in sorted(set(questions))
        ),
    )


def require_possible(
    participants: Sequence[int],
    questions: Sequence[int],
    overlap: int,
    width: float,
    difference: float,
    n_studies: int = STUDIES,
) -> None:
    """Raise AnalysisError if `power` cannot simulate this, before anything else takes long."""
    for name, numbers, least in (
        ("participants", participants, 2),
        ("questions", questions, 2),
        ("overlap", (overlap,), 1),
        ("studies", (n_studies,), 2),
    ):
        if not numbers or min(numbers) < least:
            raise AnalysisError(name, f"{list(numbers)} is too few", f"use {least} or more")
    for name, target in (("width", width), ("difference", difference)):
        if not 0 < target < 1:
            raise AnalysisError(name, f"{target} is not between 0 and 1", "try 0.05")


def _spreads(samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sd of a metric's statistic and of two metrics' difference, (statistics, 2, studies)."""
    alone = np.sqrt(np.nanvar(samples, axis=2, ddof=1).mean(axis=1))
    return alone, np.nanstd(samples[:, 0] - samples[:, 1], axis=1, ddof=1)


def _precision(samples: FloatArray) -> dict[Statistic, Precision]:
    alone, between = _spreads(samples)
    means = np.nanmean(samples, axis=(1, 2))
    return {
        name: Precision(float(mean), float(WIDTH * sd), float(DETECTABLE * sd_difference))
        for name, mean, sd, sd_difference in zip(STATISTICS, means, alone, between, strict=True)
    }


def _needed(
    questions: int, samples: Mapping[int, FloatArray], width: float, difference: float
) -> Needed:
    """The required numbers: sd^2 x participants hardly depends on the size, so it is averaged."""
    variances = np.array([np.stack(_spreads(each)) ** 2 * n for n, each in samples.items()])
    alone, between = variances.mean(axis=0)  # each (statistics,)

    def by_statistic(factor: float, variances: FloatArray, target: float) -> Counts:
        return {
            name: max(2, ceil(factor**2 * variance / target**2))
            for name, variance in zip(STATISTICS, variances, strict=True)
        }

    return Needed(
        questions, by_statistic(WIDTH, alone, width), by_statistic(DETECTABLE, between, difference)
    )
