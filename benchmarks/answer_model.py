"""How often the intervals of the model of the scores contain the truth, over simulated studies.

Each participant answers 50 questions about two of three systems. The scores follow the model that
`analysis/answer_model` fits, with known parameters: participants and triplets differ, and system,
side and place each have an effect. In the last case, they do not: how a system is liked also
differs between participants, which the model does not know. Without `--full` there are few studies
of one size, enough to see that the benchmark runs, not to distinguish 0.93 from 0.95.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hsfiq.analysis.score_effects import AnswerModel, fit_scores

QUESTIONS = 50
SYSTEMS = {"best": 0.5, "middle": 0.0, "worst": -0.5}
SIDE, PLACE = 0.3, -0.2
SD_PARTICIPANTS, SD_TRIPLETS = 1.0, 0.7
THRESHOLDS = (-2.0, -0.7, 0.7, 2.0)
GOAL = (0.93, 0.97)
STUDIES, FULL_STUDIES = 20, 100


@dataclass(frozen=True)
class Design:
    """A kind of study.

    Attributes:
        overlap: how many participants answer each question.
        taste: the standard deviation between participants of how much they like a system.
    """

    participants: int
    overlap: int
    taste: float = 0.0


QUICK = (Design(20, 1),)
FULL = (
    *(Design(participants, overlap) for overlap in (1, 3) for participants in (10, 30, 60)),
    Design(30, 30),
    Design(30, 1, taste=0.5),
)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate and fit studies of one kind, or with `full` of several."""
    return measure(seed, FULL_STUDIES if full else STUDIES, FULL if full else QUICK)


def measure(seed: int, studies: int, designs: tuple[Design, ...]) -> dict[str, Any]:
    """The coverage of each parameter's interval, by design."""
    cases = [
        case
        for number, design in enumerate(designs)
        for case in covered(seed, number, design, studies)
    ]
    modelled = [
        case["coverage"]
        for case in cases
        if not case["taste"] and not case["parameter"].startswith("sd")
    ]
    return {
        "name": "answer-model",
        "level": 0.95,
        "studies": studies,
        "questions": QUESTIONS,
        "seed": seed,
        "lowest_of_effects": min(modelled),
        "highest_of_effects": max(modelled),
        "within_goal": GOAL[0] <= min(modelled) and max(modelled) <= GOAL[1],
        "cases": cases,
    }


def simulate(rng: np.random.Generator, design: Design) -> pd.DataFrame:
    """The scores of one study, two rows a question, as `fit_scores` takes them."""
    n = design.participants * QUESTIONS
    person = np.arange(n) // QUESTIONS
    # The participants of a group share their questions, in an order of their own.
    group = np.arange(design.participants) // design.overlap
    triplet = np.concatenate([number * QUESTIONS + rng.permutation(QUESTIONS) for number in group])
    n_systems = len(SYSTEMS)
    first = rng.integers(0, n_systems, int(triplet.max()) + 1)[triplet]
    second = (first + rng.integers(1, n_systems, int(triplet.max()) + 1)[triplet]) % n_systems
    is_swapped = rng.random(n) < 0.5
    shown = np.column_stack(
        [np.where(is_swapped, second, first), np.where(is_swapped, first, second)]
    )
    place = np.tile(np.arange(QUESTIONS) / (QUESTIONS - 1) - 0.5, design.participants)
    latent = rng.normal(0, SD_PARTICIPANTS, design.participants)[person]
    latent += rng.normal(0, SD_TRIPLETS, int(triplet.max()) + 1)[triplet] + PLACE * place
    taste = rng.normal(0, design.taste, (design.participants, n_systems))
    strength = np.array(list(SYSTEMS.values()))
    sides = []
    for column, side in enumerate((0.5, -0.5)):
        system = shown[:, column]
        x = latent + strength[system] + taste[person, system] + SIDE * side
        score = np.searchsorted(THRESHOLDS, x + rng.logistic(size=n)) + 1
        sides.append(
            pd.DataFrame(
                {
                    "score": score,
                    "system": np.array(list(SYSTEMS), dtype=object)[system],
                    "side": side,
                    "place": place,
                    "participant": person,
                    "triplet": triplet,
                }
            )
        )
    return pd.concat(sides, ignore_index=True)


def covered(seed: int, number: int, design: Design, studies: int) -> list[dict[str, Any]]:
    """The coverage of the intervals of one design."""
    truth = {
        "system best": SYSTEMS["best"],
        "side": SIDE,
        "place": PLACE,
        "sd participants": SD_PARTICIPANTS,
        "sd triplets": SD_TRIPLETS,
    }
    by_name: dict[str, list[tuple[float, float, float]]] = {name: [] for name in truth}
    start, failed = perf_counter(), 0
    for study in range(studies):
        model = fit_scores(simulate(np.random.default_rng((seed, number, study)), design))
        if model.reason is not None:
            failed += 1
            continue
        for name, estimate in estimates(model).items():
            by_name[name].append(estimate)
    seconds = (perf_counter() - start) / studies
    return [
        {
            "participants": design.participants,
            "overlap": design.overlap,
            "taste": design.taste,
            "parameter": name,
            "truth": truth[name],
            **summary(np.array(values), truth[name]),
            "undefined": failed,
            "seconds": round(seconds, 2),
        }
        for name, values in by_name.items()
    ]


def estimates(model: AnswerModel) -> dict[str, tuple[float, float, float]]:
    """Estimate, low and high end of each parameter."""
    effects = {"system best": model.systems["best"], "side": model.side, "place": model.place}
    deviations = {"sd participants": model.sd_participants, "sd triplets": model.sd_triplets}
    return {name: (each.value, *each.wald) for name, each in effects.items()} | {
        name: (each.value, *each.wald) for name, each in deviations.items()
    }


def summary(values: NDArray[np.float64], truth: float) -> dict[str, float]:
    """Of (studies, 3) estimates and ends."""
    share = float(((values[:, 1] <= truth) & (truth <= values[:, 2])).mean())
    return {
        "mean": round(float(values[:, 0].mean()), 3),
        "coverage": share,
        "standard_error": round(sqrt(share * (1 - share) / len(values)), 3),
        "mean_length": round(float((values[:, 2] - values[:, 1]).mean()), 3),
    }
