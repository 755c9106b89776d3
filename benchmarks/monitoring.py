"""The error and the savings of watching a preference while a study runs.

In a simulated study every participant compares two systems 25 times. How often the first is
preferred differs between participants (by at most 0.1 from the mean) and between queries (by at
most 0.2). After every participant somebody looks at the confidence sequence and, for comparison,
at the usual 95% interval (Student's, of the participants' shares, from the fifth one on).

`sequence` and `usual` are the shares of studies in which the interval excludes the true rate at
any of 100 looks. The truth is the rate over all participants and queries that there could be; the
`own` figures take the study's own queries for all queries. Two designs break the assumptions:
queries shared by all, judged as a sample of all queries, and of every 50 participants who start
together those who like the first system finish first.

The budget is the number of participants with which a test at the end detects a rate of 0.55 with a
power of 80% at 5%. A study stops when the sequence excludes one half, or when the budget is spent.

`restarted` are the shares of wrong decisions if a study without a preference, of one question for
each participant, is started again until it decides, by the number of starts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hsfiq.analysis.sequential import looks_until_excluded
from hsfiq.answer_rules import error_of_study

STUDIES, FULL_STUDIES = 300, 2000
PEOPLE, QUESTIONS = 100, 25
FIRST_USUAL_LOOK = 5
RATE, BY_PERSON, BY_QUERY = 0.6, 0.1, 0.2
RATES = (0.5, 0.525, 0.55, 0.575, 0.6, 0.65, 0.7)
PLANNED = 0.55
LEVEL = 1 - error_of_study(0)
STARTS = 3
LONGEST = 500

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], tuple[Floats, float]]
"""A study: the participants' shares, (people,), and the rate on the study's own queries."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate studies of each design, and of each true rate."""
    return measure(seed, FULL_STUDIES if full else STUDIES)


def measure(seed: int, studies: int) -> dict[str, Any]:
    errors = [error(seed, studies, name, draw) for name, draw in DESIGNS.items()]
    budget = planned_budget(seed)
    return {
        "name": "monitoring",
        "level": 0.95,
        "studies": studies,
        "looks": PEOPLE,
        "seed": seed,
        "highest_error": max(case["sequence"] for case in errors if case["holds"]),
        "budget": budget,
        "restarted": restarted(seed, studies),
        "cases": errors + [saving(seed, studies, rate, budget) for rate in RATES],
    }


# ---------------------------------------------------------------------------------------- studies


def study(
    rng: np.random.Generator,
    *,
    people: int = PEOPLE,
    rate: float | Floats = RATE,
    group: int = 1,
    questions: Floats | int = QUESTIONS,
) -> tuple[Floats, float]:
    """Draw a study in which groups of participants judge the same queries."""
    n_groups = ceil(people / group)
    of_query = rng.uniform(-BY_QUERY, BY_QUERY, (n_groups, QUESTIONS)).repeat(group, axis=0)
    of_person = rng.uniform(-BY_PERSON, BY_PERSON, (people, 1))
    rates = np.reshape(rate, (-1, 1)) + of_query[:people] + of_person
    asked = np.arange(QUESTIONS) < np.reshape(questions, (-1, 1))
    won = (rng.random(rates.shape) < rates) & asked
    own = float(np.mean(rate) + of_query[:people].mean())
    return won.sum(axis=1) / np.broadcast_to(asked, won.shape).sum(axis=1), own


def unequal(rng: np.random.Generator) -> tuple[Floats, float]:
    return study(rng, questions=rng.integers(1, QUESTIONS + 1, PEOPLE).astype(np.float64))


def three_categories(rng: np.random.Generator) -> tuple[Floats, float]:
    return study(rng, rate=np.resize([RATE - 0.1, RATE, RATE + 0.1], PEOPLE))


def ordered_by_liking(rng: np.random.Generator) -> tuple[Floats, float]:
    shares, own = study(rng)
    return -np.sort(-shares.reshape(-1, 50), axis=1).ravel(), own


DESIGNS: dict[str, Draw] = {
    "own queries": study,
    "own queries, no preference": partial(study, rate=0.5),
    "1 to 25 questions": unequal,
    "one question": partial(study, questions=1),
    "3 categories in turn": three_categories,
    "3 people a query": partial(study, group=3),
    "all on the same queries": partial(study, group=PEOPLE),
    "50 at a time, by liking": ordered_by_liking,
}
BROKEN = ("all on the same queries", "50 at a time, by liking")


# ------------------------------------------------------------------------------------- error, cost


def error(seed: int, studies: int, name: str, draw: Draw) -> dict[str, Any]:
    truth = 0.5 if name.endswith("no preference") else RATE
    excluded = np.zeros((studies, 4), dtype=np.bool_)
    for number in range(studies):
        rng = np.random.default_rng((seed, list(DESIGNS).index(name), number))
        shares, own = draw(rng)
        excluded[number] = [
            looks_until_excluded(shares, truth, LEVEL) is not None,
            looks_until_excluded(shares, own, LEVEL) is not None,
            usual_excludes(shares, truth),
            usual_excludes(shares, own),
        ]
    sequence, sequence_own, usual, usual_own = excluded.mean(axis=0).tolist()
    return {
        "design": name,
        "sequence": sequence,
        "standard_error": sqrt(sequence * (1 - sequence) / studies),
        "usual": usual,
        "sequence_own": sequence_own,
        "usual_own": usual_own,
        "holds": name not in BROKEN,
    }


def restarted(seed: int, studies: int) -> list[float]:
    decided = np.zeros((studies, STARTS), dtype=np.bool_)
    for number in range(studies):
        rng = np.random.default_rng((seed, 98, number))
        for start in range(STARTS):
            shares, _ = study(rng, rate=0.5, questions=1)
            level = 1 - error_of_study(start)
            decided[number, start] = looks_until_excluded(shares, 0.5, level) is not None
    wrong = np.logical_or.accumulate(decided, axis=1).mean(axis=0)
    return [float(share) for share in wrong]


def usual_excludes(shares: Floats, rate: float) -> bool:
    """Whether Student's 95% interval excludes the rate at any look."""
    n = np.arange(1, len(shares) + 1)
    means = np.cumsum(shares) / n
    squares = np.maximum(np.cumsum(shares**2) - n * means**2, 0.0)
    looks = slice(FIRST_USUAL_LOOK - 1, None)
    errors = np.sqrt(squares[looks] / (n[looks] - 1) / n[looks])
    return bool((abs(means[looks] - rate) > stats.t.ppf(0.975, n[looks] - 1) * errors).any())


def planned_budget(seed: int) -> int:
    shares, _ = study(np.random.default_rng((seed, 99)), people=100_000, rate=PLANNED)
    detectable = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    return ceil(float(detectable * shares.std() / (PLANNED - 0.5)) ** 2)


def saving(seed: int, studies: int, rate: float, budget: int) -> dict[str, Any]:
    """What stopping early saves, against a test at the end of the budget."""
    looks, detected = [], 0
    for number in range(studies):
        rng = np.random.default_rng((seed, 100 + round(1000 * rate), number))
        shares, _ = study(rng, people=LONGEST, rate=rate)
        looks.append(looks_until_excluded(shares, 0.5, LEVEL) or LONGEST + 1)
        detected += bool(stats.ttest_1samp(shares[:budget], 0.5).pvalue < 0.05)
    needed = np.array(looks)
    return {
        "rate": rate,
        "decided_within_budget": float((needed <= budget).mean()),
        "test_at_the_end": detected / studies,
        "mean_participants": float(np.minimum(needed, budget).mean()),
        "saved": 1 - float(np.minimum(needed, budget).mean()) / budget,
        "median_until_decided": None if np.median(needed) > LONGEST else float(np.median(needed)),
    }


def markdown(result: dict[str, Any]) -> str:
    """The two tables of docs/reference/statistics.md."""
    about = f"{result['studies']:,} studies of each kind, {result['looks']} looks, seed "
    about += f"{result['seed']}; highest error where the sequence should hold: "
    lines = [
        f"{about}{result['highest_error']:.3f}",
        "",
        "| design | sequence | usual interval | sequence, own queries | usual, own queries |",
        "|---|---|---|---|---|",
    ]
    columns = ("sequence", "usual", "sequence_own", "usual_own")
    lines += [
        f"| {case['design']} | " + " | ".join(f"{case[name]:.3f}" for name in columns) + " |"
        for case in result["cases"]
        if "design" in case
    ]
    names = ("true rate", "decided within the budget", "test at the end", "mean participants")
    lines += [
        "",
        "wrong after 1, 2, ... starts: "
        + ", ".join(f"{share:.3f}" for share in result["restarted"]),
        f"budget: {result['budget']} participants",
        "",
        f"| {' | '.join(names)} | saved | median until decided |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {case['rate']:g} | {case['decided_within_budget']:.2f} | {case['test_at_the_end']:.2f}"
        f" | {case['mean_participants']:.1f} | {case['saved']:.0%} | "
        f"{case['median_until_decided'] or f'more than {LONGEST}'} |"
        for case in result["cases"]
        if "rate" in case
    ]
    return "\n".join(lines)
