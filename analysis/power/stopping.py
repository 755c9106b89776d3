"""How many participants it takes to decide between two systems: with a fixed plan, or watched.

The fixed plan is tested once, at the end. The watched study stops when the confidence sequence of
`hsfiq.analysis.sequential` excludes one half. Each participant's own rate is drawn from a beta
distribution, and each of their questions is about any two of the systems. There are no ties, and
nobody shares a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import pandas as pd
from scipy import stats

from hsfiq.analysis.arrays import FloatArray
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.errors import AnalysisError
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.spread import LEVEL
from hsfiq.analysis.sequential.confidence_sequence import looks_until_excluded
from hsfiq.analysis.sequential.preferences import EQUAL
from hsfiq.analysis.systems.systems import compared_systems

RATES = (0.55, 0.6, 0.65, 0.7)
ASSUMED_SPREAD = 0.1
"""The standard deviation, between participants, of their own rates, if no release shows it."""
POWER = 0.8
STUDIES = 200
LONGEST = 2000
"""A watched study of more participants is not simulated further."""


@dataclass(frozen=True)
class StoppingPlan(JsonRecord):
    """The participants that it takes to decide between two systems at one rate.

    Attributes:
        rate: at which people prefer the better system.
        questions: those of each participant, about all systems.
        fixed: the participants that detect it with a power of 80%, tested once at the end.
        expected: the mean number of participants until the sequence decides.
        median, nine_in_ten: by then half, and 90%, of the watched studies are decided; None if
            that takes more than `LONGEST` participants, and then `expected` is at least so much.
    """

    rate: float
    questions: int
    fixed: int
    expected: float
    median: int | None
    nine_in_ten: int | None


@dataclass(frozen=True)
class StoppingPlans(JsonRecord):
    """Plans at several rates and numbers of questions.

    Attributes:
        systems: how many are compared; the error is shared by all their pairs (Bonferroni).
        spread: the standard deviation of participants' own rates, and where it comes from.
    """

    systems: int
    level: float
    power: float
    spread: float
    spread_source: str
    n_studies: int
    seed: int
    plans: tuple[StoppingPlan, ...]


def stopping_plans(
    rates: Sequence[float] = RATES,
    questions: Sequence[int] = (50,),
    *,
    systems: int = 2,
    spread: float | None = None,
    source: str = "assumed",
    seed: int = 0,
) -> StoppingPlans:
    """Plan studies that compare so many systems.

    AnalysisError: a rate is not above 0.5 and below 1, or there are fewer than two systems.
    """
    spread = ASSUMED_SPREAD if spread is None else spread
    for rate in rates:
        if not EQUAL < rate < 1:
            raise AnalysisError("preference", f"{rate} is not between 0.5 and 1", "try 0.6")
        if spread**2 >= rate * (1 - rate):
            raise AnalysisError(
                "preference", f"{rate}: own rates cannot spread by {spread:g} around it", "lower it"
            )
    if systems < 2:
        raise AnalysisError("systems", f"{systems} cannot be compared", "use 2 or more")
    n_pairs = systems * (systems - 1) // 2
    return StoppingPlans(
        systems=systems,
        level=1 - (1 - LEVEL) / n_pairs,
        power=POWER,
        spread=spread,
        spread_source=source,
        n_studies=STUDIES,
        seed=seed,
        plans=tuple(
            plan(rate, number, n_pairs, spread, seed)
            for number in sorted(set(questions))
            for rate in rates
        ),
    )


def plan(rate: float, questions: int, n_pairs: int, spread: float, seed: int) -> StoppingPlan:
    """Count the participants of both plans; a participant may be asked about a pair or not."""
    level = 1 - (1 - LEVEL) / n_pairs
    needed = np.array(
        [
            until_decided(
                rate, questions, n_pairs, spread, level, np.random.default_rng((seed, 3, number))
            )
            for number in range(STUDIES)
        ]
    )
    median, nine_in_ten = (
        int(value) if value <= LONGEST else None
        for value in np.quantile(needed, [0.5, 0.9], method="higher")
    )
    return StoppingPlan(
        rate=rate,
        questions=questions,
        fixed=fixed_plan(rate, questions, n_pairs, spread, level),
        expected=float(np.minimum(needed, LONGEST).mean()),
        median=median,
        nine_in_ten=nine_in_ten,
    )


def fixed_plan(rate: float, questions: int, n_pairs: int, spread: float, level: float) -> int:
    """The participants with which a normal test of their shares detects the rate."""
    numbers = np.arange(1, questions + 1)
    chances = stats.binom.pmf(numbers, questions, 1 / n_pairs)
    asked = float(chances.sum())
    within = rate * (1 - rate) - spread**2
    variance = spread**2 + within * float(chances @ (1 / numbers)) / asked
    detectable = float(stats.norm.ppf((1 + level) / 2) + stats.norm.ppf(POWER))
    return max(2, ceil(detectable**2 * variance / (rate - EQUAL) ** 2 / asked))


def until_decided(
    rate: float,
    questions: int,
    n_pairs: int,
    spread: float,
    level: float,
    rng: np.random.Generator,
) -> int:
    """After how many participants a watched study decides; `LONGEST` + 1 if not by then."""
    asked = rng.binomial(questions, 1 / n_pairs, LONGEST)
    own_rates = draw_rates(rate, spread, LONGEST, rng)
    won = rng.binomial(asked, own_rates)
    people = np.flatnonzero(asked)
    shares = won[people] / asked[people]
    for looks in (64, 256, LONGEST):  # most studies need not be simulated to their end
        decided = looks_until_excluded(shares[:looks], EQUAL, level)
        if decided is not None:
            return int(people[decided - 1]) + 1
    return LONGEST + 1


def draw_rates(rate: float, spread: float, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw (n,) participants' own rates: beta, with this mean and standard deviation."""
    if spread == 0:
        return np.full(n, rate)
    weight = rate * (1 - rate) / spread**2 - 1
    return np.asarray(rng.beta(rate * weight, (1 - rate) * weight, n))


def estimate_spread(release: Release) -> float:
    """The spread of a release's participants, by the mean product of their answers about a pair.

    AnalysisError: the release names no systems, or no participant compared two systems twice.
    """
    names = release.sets.get("system", pd.Series(dtype=object)).dropna().unique()
    compared = compared_systems(release.preferences, sorted(names))
    first, second = compared["first"], compared["second"]
    share = np.choose(compared["preferred"].to_numpy(), (0.5, 1.0, 0.0))
    table = pd.DataFrame(
        {
            "pair": np.minimum(first, second) * len(names) + np.maximum(first, second),
            "person": compared["participant_id"],
            "won": np.where(first < second, share, 1 - share),
        }
    )
    table["deviation"] = table["won"] - table.groupby("pair")["won"].transform("mean")
    groups = table.groupby(["pair", "person"])["deviation"]
    sums, sizes = groups.sum(), groups.size()
    squares = table["deviation"].pow(2).groupby([table["pair"], table["person"]]).sum()
    products = float((sizes * (sizes - 1)).sum())
    if products == 0:
        raise AnalysisError(
            release.folder,
            "does not show how participants' preferences between systems differ",
            "no participant compared two named systems twice: leave out --from",
        )
    return float(np.sqrt(max(0.0, float((sums**2 - squares).sum()) / products)))
