"""Simulated annotators whose noise, side bias, offset and lapses are known.

Each retrieved set leaves one noisy impression on an annotator:

    impression = SLOPE * set utility + noise * (a standard Gumbel draw)

The preferred set is the one with the larger impression, `side_bias` added to set 1; the two scores
are the same impressions, the annotator's `offset` added, cut at `CUTS`. So the preference follows a
logistic law that `SimulatedAnnotator.share_of_set_1` states exactly, and a preferred set has the
lower score only by side bias or by a lapse: in about one question of a hundred, as people do.
Over a session the offset moves by `drift`, in equal steps from the first question to the last.
The standard values give the published answers' score shares, score ties and side-1 share, nearly.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hsfiq.records import HIGHEST_SCORE, LOWEST_SCORE, Answer, Times

if TYPE_CHECKING:
    from random import Random

SLOPE = 8.0
"""Logits per unit of set utility, at noise 1."""

CUTS = (3.1, 4.55, 5.7, 7.05)
"""The impressions at which the score becomes 2, 3, 4 and 5."""

TIE_WIDTH = 0.35
"""Impressions that differ by no more than this are a tie, where the study allows one."""

HOPELESS = 0.6
"""Below this utility, a set does not fit the text."""

_FLAGS_HOPELESS, _FLAGS_ANYWAY = 0.25, 0.03
_SECONDS_SPREAD = 0.55  # of the logarithm
_LAPSE_HURRY = 0.35  # a lapse takes this part of the usual time


@dataclass(frozen=True, slots=True)
class SimulatedAnnotator:
    """The known parameters of one annotator.

    Attributes:
        name: says that nobody real answered, such as `simulated-07`.
        noise: scale of the Gumbel noise on an impression; 0 is an oracle.
        side_bias: added to set 1 when the two are compared; logits at noise 1.
        offset: leniency, added to both impressions before they become scores.
        lapse_rate: the share of questions answered without looking.
        median_seconds: half of the questions take less than this; 0 is at once.
        drift: how much more lenient they are at the last question than at the first.
    """

    name: str
    noise: float = 1.0
    side_bias: float = 0.0
    offset: float = 0.0
    lapse_rate: float = 0.0
    median_seconds: float = 20.0
    drift: float = 0.0

    def share_of_set_1(self, utility_1: float, utility_2: float) -> float:
        """The probability that set 1 is preferred, ties not allowed."""
        margin = SLOPE * (utility_1 - utility_2) + self.side_bias
        if self.noise > 0:
            looked = 0.5 + 0.5 * math.tanh(margin / self.noise / 2)  # logistic, never overflows
        else:
            looked = 0.5 + 0.5 * ((margin > 0) - (margin < 0))
        return (1 - self.lapse_rate) * looked + self.lapse_rate / 2

    def answer(
        self,
        rng: Random,
        utility_1: float,
        utility_2: float,
        *,
        ties_allowed: bool = False,
        progress: float = 0.0,
    ) -> Answer:
        """Answer one question, with the active seconds and no other times.

        Args:
            rng: the generator; the same state gives the same answer.
            utility_1: the utility of set 1, 0 to 1.
            utility_2: the utility of set 2, 0 to 1.
            ties_allowed: whether the study lets the preferred set be 0.
            progress: how far the session is, 0 at its first question and 1 at its last.
        """
        seconds = self.median_seconds * rng.lognormvariate(0, _SECONDS_SPREAD)
        if rng.random() < self.lapse_rate:
            return _lapse(rng, seconds * _LAPSE_HURRY)
        one = SLOPE * utility_1 + self.noise * _gumbel(rng)
        other = SLOPE * utility_2 + self.noise * _gumbel(rng)
        offset = self.offset + self.drift * progress
        return Answer(
            score_1=_score(one + offset),
            score_2=_score(other + offset),
            preferred=_preferred(rng, one + self.side_bias - other, ties_allowed=ties_allowed),
            irrelevant=_flagged(rng, max(utility_1, utility_2)),
            times=Times(active_seconds=round(seconds, 3)),
        )


@dataclass(frozen=True, slots=True)
class Population:
    """The distribution of annotators: means, and spreads (standard deviations).

    Noise is log-normal about its median, side bias, offset and drift normal, the lapse rate
    exponential (most hardly lapse, a few often) and never above a half, the median seconds
    log-normal.
    """

    noise: float = 1.0
    noise_spread: float = 0.25
    side_bias: float = 0.3
    side_bias_spread: float = 0.2
    offset_spread: float = 0.5
    lapse_rate: float = 0.02
    median_seconds: float = 20.0
    median_seconds_spread: float = 0.3
    drift: float = 0.0
    drift_spread: float = 0.0


STANDARD = Population()
"""The population that the demo and the benchmarks use."""


def draw_annotators(
    rng: Random, n: int, population: Population = STANDARD
) -> tuple[SimulatedAnnotator, ...]:
    """Draw `n` annotators, named `simulated-1` onwards (padded to the same length)."""
    width = len(str(n))
    steady = [
        SimulatedAnnotator(
            name=f"simulated-{number:0{width}d}",
            noise=population.noise * rng.lognormvariate(0, population.noise_spread),
            side_bias=rng.gauss(population.side_bias, population.side_bias_spread),
            offset=rng.gauss(0, population.offset_spread),
            lapse_rate=min(0.5, population.lapse_rate * rng.expovariate(1)),
            median_seconds=population.median_seconds
            * rng.lognormvariate(0, population.median_seconds_spread),
        )
        for number in range(1, n + 1)
    ]
    # After everything else: a seed draws the same annotators with drift as without.
    return tuple(
        replace(annotator, drift=rng.gauss(population.drift, population.drift_spread))
        for annotator in steady
    )


def _gumbel(rng: Random) -> float:
    """Draw from the standard Gumbel distribution; the difference of two draws is logistic."""
    return -math.log(rng.expovariate(1))


def _score(impression: float) -> int:
    return LOWEST_SCORE + bisect_right(CUTS, impression)


def _preferred(rng: Random, margin: float, *, ties_allowed: bool) -> int:
    if ties_allowed and abs(margin) <= TIE_WIDTH:
        return 0
    if margin == 0:
        return rng.choice((1, 2))
    return 1 if margin > 0 else 2


def _flagged(rng: Random, better: float) -> bool:
    """Draw the irrelevant flag, set mostly if not even the better set fits."""
    return rng.random() < (_FLAGS_HOPELESS if better < HOPELESS else _FLAGS_ANYWAY)


def _lapse(rng: Random, seconds: float) -> Answer:
    """Draw an inattentive answer: everything is random, so it may contradict itself."""
    return Answer(
        score_1=rng.randint(LOWEST_SCORE, HIGHEST_SCORE),
        score_2=rng.randint(LOWEST_SCORE, HIGHEST_SCORE),
        preferred=rng.choice((1, 2)),
        irrelevant=rng.random() < _FLAGS_ANYWAY,
        times=Times(active_seconds=round(seconds, 3)),
    )
