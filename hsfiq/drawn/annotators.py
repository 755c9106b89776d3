"""Simulated annotators whose noise, side bias, offset and lapses are known.

An annotator has one noisy impression of each retrieved set:

    impression = SLOPE * set utility + noise * (a draw from the standard Gumbel distribution)

The set with the larger impression is preferred, after `side_bias` was added to set 1. The scores
are the same impressions plus the annotator's `offset`, with `CUTS` as thresholds. So the preference
follows a logistic model, which `SimulatedAnnotator.share_of_set_1` computes exactly, and a
preferred set has the lower score only by side bias or by a lapse: in about one question in a
hundred, as with people. From the first question to the last, the offset changes linearly by
`drift`. The standard values approximate the shares of scores, of equal scores and of set 1 among
the published answers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from hsfiq.answer_rules import HIGHEST_SCORE, LOWEST_SCORE, Answer, Times, pair_values

if TYPE_CHECKING:
    from random import Random

SLOPE = 8.0
"""Logits per unit of set utility, at noise 1."""

CUTS = (3.1, 4.55, 5.7, 7.05)
"""The impressions at which a score on the standard scale becomes 2, 3, 4 and 5."""

TIE_WIDTH = 0.35
"""Impressions that differ by at most this are a tie, if the study allows ties."""

IRRELEVANT_BELOW = 0.6
"""A set of lower utility does not fit the text."""

_FLAG_RATE_IF_IRRELEVANT, _FLAG_RATE = 0.25, 0.03
_SECONDS_SPREAD = 0.55  # standard deviation of the logarithm
_LAPSE_TIME_SHARE = 0.35  # of the time that the answer would take otherwise


@dataclass(frozen=True, slots=True)
class SimulatedAnnotator:
    """The known parameters of one annotator.

    Attributes:
        name: marks the answers as simulated, such as `simulated-07`.
        noise: scale of the Gumbel noise on an impression; 0 is an oracle.
        side_bias: added to set 1 when the two are compared; logits at noise 1.
        offset: leniency, added to both impressions before they become scores.
        lapse_rate: share of the questions answered at random.
        drift: difference of the offset between the last question and the first.
    """

    name: str
    noise: float = 1.0
    side_bias: float = 0.0
    offset: float = 0.0
    lapse_rate: float = 0.0
    median_seconds: float = 20.0
    drift: float = 0.0

    def share_of_set_1(self, utility_1: float, utility_2: float) -> float:
        """Return the probability that set 1 is preferred if ties are not allowed."""
        margin = SLOPE * (utility_1 - utility_2) + self.side_bias
        if self.noise > 0:
            attentive = 0.5 + 0.5 * math.tanh(margin / self.noise / 2)  # logistic, no overflow
        else:
            attentive = 0.5 + 0.5 * ((margin > 0) - (margin < 0))
        return (1 - self.lapse_rate) * attentive + self.lapse_rate / 2

    def answer(
        self,
        rng: Random,
        utility_1: float,
        utility_2: float,
        *,
        ties_allowed: bool = False,
        progress: float = 0.0,
        points: int = HIGHEST_SCORE,
    ) -> Answer:
        """Answer a question about a pair; of its times, only the active seconds are set.

        `progress` is 0 at the first question and 1 at the last; `points` are those of the scale.
        """
        seconds = self.seconds(rng)
        if rng.random() < self.lapse_rate:
            return _lapse(rng, seconds * _LAPSE_TIME_SHARE, points)
        impression_1 = SLOPE * utility_1 + self.noise * _gumbel(rng)
        impression_2 = SLOPE * utility_2 + self.noise * _gumbel(rng)
        margin = impression_1 + self.side_bias - impression_2
        offset = self.offset + self.drift * progress
        values = pair_values(
            _score(impression_1 + offset, points),
            _score(impression_2 + offset, points),
            _preferred(rng, margin, ties_allowed=ties_allowed),
        )
        return Answer(
            values,
            irrelevant=_flagged(rng, max(utility_1, utility_2)),
            times=Times(active_seconds=round(seconds, 3)),
        )

    def finds_irrelevant(self, utility: float) -> bool:
        """Whether something with this utility is irrelevant to everybody."""
        return utility < IRRELEVANT_BELOW

    def seconds(self, rng: Random) -> float:
        """Draw the active seconds of an answer."""
        return self.median_seconds * rng.lognormvariate(0, _SECONDS_SPREAD)

    def impression(self, rng: Random, utility: float) -> float:
        """Draw the impression of something with this utility; of a lapse, anything."""
        if rng.random() < self.lapse_rate:
            return rng.uniform(CUTS[0] - 1, CUTS[-1] + 1)
        return SLOPE * utility + self.noise * _gumbel(rng)

    def score(
        self, rng: Random, utility: float, *, progress: float = 0.0, points: int = HIGHEST_SCORE
    ) -> int:
        """Score one set that is shown alone."""
        impression = self.impression(rng, utility) + self.offset + self.drift * progress
        return _score(impression, points)


@dataclass(frozen=True, slots=True)
class Population:
    """The distribution of annotators: means, and spreads (standard deviations).

    Noise and median seconds are log-normal about their medians; side bias, offset and drift are
    normal; the lapse rate is exponential (most rarely lapse, a few often), at most one half.
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
    """Draw `n` annotators, named `simulated-1` onwards, with zeros for equal length."""
    width = len(str(n))
    without_drift = [
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
    # Last, so that a seed draws the same annotators with drift as without.
    return tuple(
        replace(annotator, drift=rng.gauss(population.drift, population.drift_spread))
        for annotator in without_drift
    )


def _gumbel(rng: Random) -> float:
    """Draw from the standard Gumbel distribution; the difference of two draws is logistic."""
    return -math.log(rng.expovariate(1))


def _score(impression: float, points: int) -> int:
    return LOWEST_SCORE + bisect_right(cuts_of(points), impression)


@cache
def cuts_of(points: int) -> tuple[float, ...]:
    """The thresholds of a scale: `CUTS` for the standard one, otherwise between and beyond them."""
    places = (point * HIGHEST_SCORE / points - 1 for point in range(1, points))
    return tuple(_cut_at(place) for place in places)


def _cut_at(place: float) -> float:
    """The value at a place among `CUTS`, from 0, on the line through the two nearest."""
    below = min(max(int(place), 0), len(CUTS) - 2)
    return CUTS[below] + (place - below) * (CUTS[below + 1] - CUTS[below])


def _preferred(rng: Random, margin: float, *, ties_allowed: bool) -> int:
    if ties_allowed and abs(margin) <= TIE_WIDTH:
        return 0
    if margin == 0:
        return rng.choice((1, 2))
    return 1 if margin > 0 else 2


def _flagged(rng: Random, better: float) -> bool:
    """Draw the irrelevant flag from the utility of the better set."""
    return rng.random() < (_FLAG_RATE_IF_IRRELEVANT if better < IRRELEVANT_BELOW else _FLAG_RATE)


def _lapse(rng: Random, seconds: float, points: int) -> Answer:
    """Draw an inattentive answer, which may contradict itself."""
    scores = rng.randint(LOWEST_SCORE, points), rng.randint(LOWEST_SCORE, points)
    return Answer(
        pair_values(*scores, rng.choice((1, 2))),
        irrelevant=rng.random() < _FLAG_RATE,
        times=Times(active_seconds=round(seconds, 3)),
    )
