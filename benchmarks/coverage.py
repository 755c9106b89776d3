"""How often 95% intervals contain the truth, over many simulated studies.

Each participant answers 50 questions, two sets each. A set has a metric's value, drawn anew; a
participant's score follows it with their own offset and slope, rounded and clipped to 1-5.
The truth is Spearman's rho among all participants there could be, from one simulation so large that
its own error does not matter. The intervals are: resampled participants, the same widened for few
participants, resampled sets, and the analytic one of Bonett and Wright; the last two treat the sets
as independent, which they are not. Without `--full` there are
200 studies of each size, too few to distinguish 0.93 from 0.95.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.statistics.correlation import bonett_wright

SIZES = (10, 20, 61)
QUESTIONS = 50
STUDIES, FULL_STUDIES = 200, 2000
RESAMPLES, ROW_RESAMPLES = 1000, 400
TRUTH_PARTICIPANTS, TRUTH_QUESTIONS = 200_000, 10
SLOPE, SLOPE_SPREAD, OFFSET_SPREAD = 0.5, 0.35, 0.4
GOAL = (0.93, 0.97)

Scores = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The metric and the human scores, row by row."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate studies of 10, 20 and 61 participants."""
    return measure(seed, FULL_STUDIES if full else STUDIES, SIZES)


def measure(seed: int, studies: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Count how often each interval contains the truth.

    Args:
        seed: of the truth, the studies and the draws.
        studies: how many of each size.
        sizes: numbers of participants.
    """
    truth = rho(simulate(np.random.default_rng((seed, 0)), TRUTH_PARTICIPANTS, TRUTH_QUESTIONS))
    cases = [case for size in sizes for case in covered(seed, studies, size, truth)]
    (goal,) = (
        case["coverage"]
        for case in cases
        if case["participants"] == max(sizes) and case["interval"] == "participants"
    )
    return {
        "name": "coverage",
        "truth": truth,
        "level": 0.95,
        "studies": studies,
        "questions": QUESTIONS,
        "resamples": RESAMPLES,
        "row_resamples": ROW_RESAMPLES,
        "seed": seed,
        "within_goal": GOAL[0] <= goal <= GOAL[1],
        "cases": cases,
    }


def simulate(rng: np.random.Generator, participants: int, questions: int) -> Scores:
    """A study: the metric and the human scores, each (participants x questions x 2,)."""
    n = 2 * questions
    slopes = rng.normal(SLOPE, SLOPE_SPREAD, size=(participants, 1))
    offsets = rng.normal(0, OFFSET_SPREAD, size=(participants, 1))
    values = rng.normal(size=(participants, n))
    latent = 3 + offsets + slopes * values + rng.normal(size=(participants, n))
    return values.ravel(), np.clip(np.round(latent), 1, 5).ravel()


def table(participants: int, questions: int) -> pd.DataFrame:
    """Participant and query of each row of `simulate`, two rows per question."""
    n = participants * questions
    return pd.DataFrame(
        {
            "participant_id": np.repeat(
                [f"p{number:04}" for number in range(participants)], 2 * questions
            ),
            "query_id": np.repeat([f"q{number:06}" for number in range(n)], 2),
        }
    )


def rho(study: Scores) -> float:
    """Spearman's rho of a study."""
    return float(spearmanr(*study).statistic)


def covered(seed: int, studies: int, participants: int, truth: float) -> list[dict[str, Any]]:
    """The share of the studies of one size whose intervals contain the truth, by interval."""
    rows = table(participants, QUESTIONS)
    ends: dict[str, list[tuple[float, float]]] = {
        "participants": [],
        "participants, widened": [],
        "sets": [],
        "Bonett-Wright": [],
    }
    for number in range(studies):
        study = simulate(
            np.random.default_rng((seed, participants, number)), participants, QUESTIONS
        )
        draws = Bootstrap.of_rows(rows, n_resamples=RESAMPLES, seed=number)
        drawn = resampled_spearman(draws, rows, *study)
        by_row = Bootstrap.of_rows(rows, unit="row", n_resamples=ROW_RESAMPLES, seed=number)
        for name, interval in (
            ("participants", draws.interval(drawn)),
            ("participants, widened", replace(draws, correction="t").interval(drawn)),
            ("sets", by_row.interval(resampled_spearman(by_row, rows, *study), rows)),
        ):
            ends[name].append((interval.low, interval.high))
        ends["Bonett-Wright"].append(bonett_wright(rho(study), len(rows)))
    return [case(participants, name, np.array(of_name), truth) for name, of_name in ends.items()]


def case(participants: int, name: str, ends: NDArray[np.float64], truth: float) -> dict[str, Any]:
    """Coverage of some intervals, (studies, 2)."""
    share = float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
    return {
        "participants": participants,
        "interval": name,
        "coverage": share,
        "standard_error": sqrt(share * (1 - share) / len(ends)),
        "mean_length": float(np.diff(ends).mean()),
    }
