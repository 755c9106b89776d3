"""Studies drawn from a population, and what is measured in each of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from hsfiq.analysis.arrays import BoolArray, FloatArray
from hsfiq.analysis.power.population import Population
from hsfiq.analysis.statistics import preference


@dataclass(frozen=True)
class Slopes:
    """How impressions follow each of two metrics of variance 1; a metric is a sum of two parts.

    Attributes:
        query_part: the share of a metric's variance that the sets of one query have in common,
            before the metric is cut into levels.
        query: the slope of impressions on that part.
        within: the slope on the rest, by which the sets of one query differ.
    """

    query_part: float
    query: float
    within: float


@dataclass(frozen=True, eq=False)
class SimulatedStudy:
    """A study with two metrics that agree equally well with people.

    Attributes:
        scores: (participants, questions, 2) levels from 0.
        metrics: (2, participants, questions, 2).
        first: (participants, questions) whether set 1 is preferred.
    """

    scores: FloatArray
    metrics: FloatArray
    first: BoolArray

    def part(self, participants: int, questions: int) -> SimulatedStudy:
        """The study of the first participants and questions."""
        return SimulatedStudy(
            self.scores[:participants, :questions],
            self.metrics[:, :participants, :questions],
            self.first[:participants, :questions],
        )

    def rhos(self) -> FloatArray:
        """Spearman's rho of each metric with the scores, over all sets: (2,)."""
        scores = _centred_ranks(self.scores)
        ranks = np.stack([_centred_ranks(metric) for metric in self.metrics])
        with np.errstate(invalid="ignore"):
            rhos: FloatArray = (ranks @ scores) / np.sqrt(
                (ranks**2).sum(axis=1) * (scores**2).sum()
            )
        return rhos

    def tie_halves(self) -> FloatArray:
        """The pairwise accuracy of each metric, its ties counted half: (2,)."""
        difference = self.metrics[..., 0] - self.metrics[..., 1]
        first = np.broadcast_to(self.first, difference.shape)
        return np.asarray(preference.tie_half(difference, first).hits.mean(axis=(1, 2)))

    def same_query(self) -> float:
        """The correlation of a metric's values of the two sets of one query."""
        first, second = self.metrics[0, ..., 0].ravel(), self.metrics[0, ..., 1].ravel()
        return float(np.corrcoef(first, second)[0, 1])


@dataclass(frozen=True, eq=False)
class Draws:
    """The standard normal numbers of a study, which do not depend on its slopes.

    Attributes:
        of_query, of_set: (2, participants, questions, 1 or 2) the two metrics' parts, correlated.
        own: (2, participants, 1, 1) how each participant's slopes differ.
        people: (participants, 1, 1); shared_query, shared_set: impressions that everybody has.
        rest: (participants, questions, 2).
    """

    of_query: FloatArray
    of_set: FloatArray
    own: FloatArray
    people: FloatArray
    shared_query: FloatArray
    shared_set: FloatArray
    rest: FloatArray


def draw_study(
    population: Population,
    slopes: Slopes,
    size: tuple[int, int],
    overlap: int,
    rng: np.random.Generator,
) -> SimulatedStudy:
    """Draw a study of (participants, questions of each), with slopes from `calibrate`.

    As many consecutive participants as `overlap` says answer the same questions.
    """
    return study_of(population, slopes, draw_numbers(population, size, overlap, rng))


def draw_numbers(
    population: Population, size: tuple[int, int], overlap: int, rng: np.random.Generator
) -> Draws:
    """Draw what `study_of` makes a study of; see `draw_study`."""
    people, questions = size
    common = population.between_metrics
    group = np.arange(people) // overlap  # each answers the same questions

    def shared(sets: int) -> FloatArray:
        return rng.standard_normal((group[-1] + 1, questions, sets))[group]

    def two_metrics(sets: int) -> FloatArray:
        both = shared(sets)
        return np.stack([sqrt(common) * both + sqrt(1 - common) * shared(sets) for _ in range(2)])

    return Draws(  # in this order, which decides what a seed draws
        of_query=two_metrics(1),
        of_set=two_metrics(2),
        own=rng.standard_normal((2, people, 1, 1)),
        people=rng.standard_normal((people, 1, 1)),
        shared_query=shared(1),
        shared_set=shared(2),
        rest=rng.standard_normal((people, questions, 2)),
    )


def study_of(population: Population, slopes: Slopes, draws: Draws) -> SimulatedStudy:
    """The study that these numbers and slopes make."""
    common = population.between_metrics
    of_query = sqrt(slopes.query_part) * draws.of_query
    of_set = sqrt(1 - slopes.query_part) * draws.of_set
    metrics = of_query + of_set
    # A slope on one metric is also a slope, times `common`, on the other.
    spread = population.slope_spread / sqrt(1 + common**2)
    followed = slopes.query * of_query + slopes.within * of_set
    # The variance of an impression that the two metrics explain, by query and within queries.
    by_query = 2 / (1 + common) * slopes.query_part * slopes.query**2
    by_set = 2 / (1 + common) * (1 - slopes.query_part) * slopes.within**2
    rest = 1 - population.participant - population.query - population.shared - by_set
    impressions = (followed / (1 + common) + spread * draws.own * metrics).sum(axis=0)
    impressions += sqrt(population.participant) * draws.people
    impressions += sqrt(max(0.0, population.query - by_query)) * draws.shared_query
    impressions += sqrt(population.shared) * draws.shared_set
    impressions += sqrt(max(0.0, rest)) * draws.rest
    return SimulatedStudy(
        scores=_cut(impressions / sqrt(1 + 2 * spread**2), population.scores),
        metrics=_cut(metrics, population.values) if population.values else metrics,
        first=impressions[..., 0] > impressions[..., 1],
    )


def _cut(values: FloatArray, shares: tuple[float, ...]) -> FloatArray:
    """Turn standard normal values into levels from 0 that have these shares."""
    edges = stats.norm.ppf(np.cumsum(shares)[:-1])
    return np.searchsorted(edges, values).astype(np.float64)


def _centred_ranks(values: FloatArray) -> FloatArray:
    """The mid-ranks of all values less the mean rank, (...) -> (n,)."""
    return np.asarray(stats.rankdata(values.ravel()) - (values.size + 1) / 2)
