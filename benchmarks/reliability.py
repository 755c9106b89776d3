"""How often the 95% intervals of ICC(1) and of ordinal alpha contain the truth.

A score is what a set deserves, plus its annotator's offset and noise, rounded and clipped to 1-5.
Either 40 people judge triplets in random twos or threes, or groups of people judge the same
triplets; a triplet has two sets. The truth is the correlation between two people's scores of a set,
or Krippendorff's alpha of these, from one simulation so large that its own error does not matter.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.people.agreement import agreement, alphas
from hsfiq.analysis.people.reliability import reliability

WORTH, OFFSET, NOISE = 0.8, 0.4, 0.9
"""Standard deviations."""
PEOPLE = 40
DESIGNS = (  # groups (0: random), triplets (of each group), raters of a triplet
    (0, 20, 2),
    (0, 45, 2),
    (0, 150, 3),
    (8, 30, 2),
    (8, 30, 3),
    (1, 30, 10),
    (1, 50, 30),
)
STUDIES, FULL_STUDIES = 60, 600
TRUTH_SETS = 400_000

Design = tuple[int, int, int]


def run(seed: int, full: bool) -> dict[str, Any]:
    """Count how often the interval contains the truth in each design."""
    studies = FULL_STUDIES if full else STUDIES
    truth = true_values(np.random.default_rng(seed))
    return {
        "name": "reliability",
        "truth": truth,
        "level": 0.95,
        "studies": studies,
        "seed": seed,
        "cases": [covered(seed, studies, design, truth) for design in DESIGNS],
    }


def covered(seed: int, studies: int, design: Design, truth: dict[str, float]) -> dict[str, Any]:
    """The share of the studies of one design whose intervals contain the truth, by figure."""
    drawn = (
        intervals(simulate(np.random.default_rng((seed, number, *design)), design))
        for number in range(studies)
    )
    groups, triplets, raters = design
    case: dict[str, Any] = {
        "people": f"{groups} x {raters}" if groups else f"{raters} of {PEOPLE}",
        "triplets": triplets,
    }
    ends = np.array(list(drawn))  # (studies, figures, 2)
    for place, (figure, true) in enumerate(truth.items()):
        low, high = ends[:, place].T
        share = float(((low <= true) & (true <= high)).mean())
        case[f"{figure}_coverage"] = share
        case[f"{figure}_standard_error"] = sqrt(share * (1 - share) / studies)
        case[f"{figure}_mean_length"] = float((high - low).mean())
    return case


def intervals(ratings: pd.DataFrame) -> list[tuple[float, float]]:
    """Those of ICC(1) and of alpha."""
    both = (reliability(ratings).single.ci, agreement(ratings, "ordinal").ci)
    return [(ci.low, ci.high) for ci in both if ci is not None]


def simulate(rng: np.random.Generator, design: Design) -> pd.DataFrame:
    """Ratings as `agreement` takes them."""
    groups, triplets, raters = design
    n_triplets = triplets * max(1, groups)
    if groups:
        people = np.arange(groups * raters).reshape(groups, raters).repeat(triplets, axis=0)
    else:
        people = np.stack([rng.choice(PEOPLE, raters, replace=False) for _ in range(n_triplets)])
    triplet, place, rater = (axis.ravel() for axis in np.indices((n_triplets, 2, raters)))
    person = people[triplet, rater]
    worth = rng.normal(0, WORTH, (n_triplets, 2))[triplet, place]
    offset = rng.normal(0, OFFSET, person.max() + 1)[person]
    return pd.DataFrame(
        {
            "rater": person,
            "unit": 2 * triplet + place,
            "cluster": triplet,
            "value": scores(worth + offset + rng.normal(0, NOISE, len(worth))),
        }
    )


def scores(latent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores from 1 to 5."""
    return np.clip(np.round(3 + latent), 1, 5)


def true_values(rng: np.random.Generator) -> dict[str, float]:
    """The correlation between two people's scores of a set, and alpha of these scores."""
    worth = rng.normal(0, WORTH, TRUTH_SETS)
    spread = sqrt(OFFSET**2 + NOISE**2)
    first, second = (scores(worth + rng.normal(0, spread, TRUTH_SETS)) for _ in range(2))
    together = np.histogram2d(first, second, bins=5)[0]
    (alpha,) = alphas((together + together.T)[None], "ordinal")
    return {"icc1": float(np.corrcoef(first, second)[0, 1]), "alpha": float(alpha)}
