"""Whether what is said about systems holds, over simulated studies of four systems.

Two systems are equally good. Participants differ in how much they like a system, systems in how
well they do on a triplet, and set 1 has an advantage. Measured are the coverage of the intervals of
the best system's strength and of the side (bootstrap, and Wald's, which takes answers as
independent), how often all rank ranges contain the true ranks, and how often two equally good
metrics are said to differ in soft pairwise accuracy at 0.05. The truth of the strengths is that of
a study of very many participants. Without `--full` there are few studies of one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.systems.pair_agreement import compare_spa
from hsfiq.analysis.systems.ranks import RankRanges, rank_ranges
from hsfiq.analysis.systems.strengths import strengths, strengths_and_side

QUESTIONS = 40
QUALITY = {"best": 0.6, "equal": 0.0, "even": 0.0, "worst": -0.6}
TRUE_RANKS = {"best": (1, 1), "equal": (2, 3), "even": (2, 3), "worst": (4, 4)}
SIDE, NU = 0.4, 0.3
TASTE, FIT, NOISE = 0.5, 0.5, 1.0
STUDIES, FULL_STUDIES = 60, 500
RESAMPLES, PERMUTATIONS = 400, 399
TRUTH_PARTICIPANTS = 20_000
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Design:
    """A kind of study: so many participants answer each question; `unit` is resampled."""

    participants: int
    overlap: int
    unit: Unit = "participant"


QUICK = (Design(30, 1),)
FULL = (
    Design(10, 1),
    Design(30, 1),
    Design(60, 1),
    Design(30, 3),
    Design(30, 3, "participant-triplet"),
)


@dataclass(frozen=True)
class Study:
    """Questions as the statistics take them, two metrics' values, and the triplet of each query."""

    rows: pd.DataFrame
    metrics: dict[str, pd.Series[float]]
    triplets: pd.Series[str]


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate studies of one kind, or with `full` of several."""
    return measure(seed, FULL_STUDIES if full else STUDIES, FULL if full else QUICK)


def measure(seed: int, studies: int, designs: tuple[Design, ...]) -> dict[str, Any]:
    """Coverage and size by design."""
    large = simulate(np.random.default_rng((seed, 0)), Design(TRUTH_PARTICIPANTS, 1))
    bootstrap = Bootstrap.of_rows(large.rows, n_resamples=1)
    model = strengths_and_side(large.rows, list(QUALITY), bootstrap)
    truth = {"best": model.strength["best"].value, "side": model.side.value}
    return {
        "name": "system-strengths",
        "studies": studies,
        "questions": QUESTIONS,
        "resamples": RESAMPLES,
        "permutations": PERMUTATIONS,
        "seed": seed,
        "truth": {name: round(value, 3) for name, value in truth.items()},
        "cases": [
            case(seed, number, design, studies, truth) for number, design in enumerate(designs, 1)
        ],
    }


def simulate(rng: np.random.Generator, design: Design) -> Study:
    """Each group of `overlap` participants answers the same questions, on sides drawn anew."""
    n_groups, n_systems = -(-design.participants // design.overlap), len(QUALITY)
    n_triplets = n_groups * QUESTIONS
    person = np.repeat(np.arange(design.participants), QUESTIONS)
    triplet = person // design.overlap * QUESTIONS + np.tile(
        np.arange(QUESTIONS), design.participants
    )
    pair = rng.integers(0, n_systems, n_triplets), rng.integers(1, n_systems, n_triplets)
    system_a, system_b = pair[0][triplet], (pair[0] + pair[1])[triplet] % n_systems
    is_swapped = rng.random(len(person)) < 0.5
    first, second = (
        np.where(is_swapped, system_b, system_a),
        np.where(is_swapped, system_a, system_b),
    )
    worth = np.array(list(QUALITY.values())) + rng.normal(0, FIT, (n_triplets, n_systems))
    taste = rng.normal(0, TASTE, (design.participants, n_systems))
    x = worth[triplet, first] + taste[person, first] - worth[triplet, second]
    x += SIDE - taste[person, second]
    shares = np.column_stack([np.exp(x / 2), np.exp(-x / 2), np.full(len(x), NU)])
    shares /= shares.sum(axis=1, keepdims=True)
    outcome = (rng.random(len(x))[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    names = [f"q{number}" for number in range(n_triplets)]
    rows = pd.DataFrame(
        {
            "participant_id": [f"p{number}" for number in person],
            "query_id": np.array(names, dtype=object)[triplet],
            "set_1": [f"{number}.1" for number in range(len(x))],
            "set_2": [f"{number}.2" for number in range(len(x))],
            "first": first,
            "second": second,
            "preferred": np.array([1, 2, 0])[np.minimum(outcome, 2)],
        }
    )
    metrics = {}
    for name in ("one", "other"):
        value = worth + rng.normal(0, NOISE, worth.shape)
        both = np.concatenate([value[triplet, first], value[triplet, second]])
        metrics[name] = pd.Series(both, index=[*rows["set_1"], *rows["set_2"]])
    return Study(rows, metrics, pd.Series(names, index=names))


def case(
    seed: int, number: int, design: Design, studies: int, truth: dict[str, float]
) -> dict[str, Any]:
    """Coverage and size of one design."""
    held: dict[str, list[bool]] = {}
    for index in range(studies):
        study = simulate(np.random.default_rng((seed, number, index)), design)
        for name, holds in checked(study, design, index, truth).items():
            held.setdefault(name, []).append(holds)
    shares = {name: float(np.mean(each)) for name, each in held.items()}
    errors = {name: sqrt(share * (1 - share) / studies) for name, share in shares.items()}
    return {
        "participants": design.participants,
        "overlap": design.overlap,
        "unit": design.unit,
        **{name: round(share, 3) for name, share in shares.items()},
        "largest_standard_error": round(max(errors.values()), 3),
    }


def checked(study: Study, design: Design, index: int, truth: dict[str, float]) -> dict[str, bool]:
    """Which intervals and ranges contain the truth, and whether the metrics are said to differ."""
    rows, names = study.rows, list(QUALITY)
    bootstrap = Bootstrap.of_rows(
        rows, study.triplets, unit=design.unit, n_resamples=RESAMPLES, seed=index
    )
    model = strengths_and_side(rows, names, bootstrap)
    share = np.choose(rows["preferred"].to_numpy(), (0.5, 1.0, 0.0))
    ranges = rank_ranges(strengths(rows, share, names, bootstrap), names, bootstrap)
    swaps = Swaps(n=PERMUTATIONS, seed=index)
    (difference,) = compare_spa(rows, study.metrics, study.triplets, swaps)
    result = {}
    for name, parameter in (("best", model.strength["best"]), ("side", model.side)):
        ci = parameter.ci
        result[name] = ci is not None and ci.low <= truth[name] <= ci.high
        result[f"{name}_wald"] = parameter.wald[0] <= truth[name] <= parameter.wald[1]
    return {
        **result,
        "all_rank_ranges": contains_true_ranks(ranges),
        "spa_differs": difference.spa.p <= SIGNIFICANT,
    }


def contains_true_ranks(ranges: RankRanges) -> bool:
    """Whether every range contains all ranks that the system could have; equals share theirs."""
    return all(
        place.low <= TRUE_RANKS[name][0] and TRUE_RANKS[name][1] <= place.high
        for name, place in ranges.systems.items()
    )
