"""How often 95% intervals contain the truth, and how often tests reject a true null hypothesis.

Many studies are simulated for each design that people run: so many participants, and so many of
them for each query ("overlap"; crossed: all participants judge the same 30 queries). A score is
a sum of effects of the participant, the query and the set, and two metrics that follow it equally
well on average, but not for each participant and each query; it is rounded to 1-5. The set with the
higher latent value is preferred, with some noise.

In the last design participants have 10 to 300 questions of their own.

The truth is Spearman's rho and tie_half of the first metric among all participants and queries
there could be, from one simulation so large that its own error does not matter; the two metrics
do not differ. Two ways to account for dependent answers are compared on the same studies: whole
participants resampled and swapped ("participants"), and the default of `hsfiq analyze`, which is
chosen from the design ("default"). Without `--full` there are 60 studies of each design, too few
to distinguish 0.93 from 0.95; with it there are 400, with a
standard error of 0.011.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

from hsfiq.analysis.data.columns import metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import BoolArray, FloatArray
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.intervals import CORRELATION, RATE, Bounds, percentile_interval
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.sensitivity import SENSITIVE_STATISTICS, Statistic
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.comparison import compare_all
from hsfiq.analysis.statistics.correlation import with_values

QUESTIONS, CROSSED_QUESTIONS = 50, 30
STUDIES, FULL_STUDIES = 60, 400
RESAMPLES, PERMUTATIONS = 400, 399
TRUTH_QUESTIONS = 4_000_000
GOAL = (0.93, 0.97)
ALPHA = 0.05
BOUNDS: dict[Statistic, Bounds] = {"rho": CORRELATION, "tie_half": RATE}
COLUMNS = {
    "coverage, rho": ("coverage", "rho"),
    "coverage, tie_half": ("coverage", "tie_half"),
    "size, rho": ("size", "rho"),
    "size, tie_half": ("size", "tie_half"),
    "length, rho": ("mean_length", "rho"),
}

SLOPE, TILT_OF_PERSON, TILT_OF_QUERY = 0.42, 0.25, 0.3
PERSON, QUERY, SET, ANSWER, CHOICE = 0.4, 0.4, 0.6, 0.8, 0.3
"""Standard deviations of the effects on the latent score, and of the noise of the preference."""


class Design(NamedTuple):
    """The number of participants, and how many of them judge each query (None: all).

    `counts` are the numbers of the participants' questions, if these differ; then each query has
    one judge.
    """

    participants: int
    overlap: int | None
    counts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        if self.counts:
            return f"{self.overlap} ({min(self.counts)}-{max(self.counts)} questions)"
        return "crossed" if self.overlap is None else str(self.overlap)


UNEQUAL = Design(30, 1, (10,) * 24 + (60,) * 4 + (300,) * 2)
"""An effective number of 5.9 participants."""

DESIGNS = (
    *(
        Design(participants, overlap)
        for participants in (4, 10, 30, 60)
        for overlap in (1, 2, 3, 10, None)
        if overlap is None or overlap < participants
    ),
    UNEQUAL,
)


class Answers(NamedTuple):
    """n questions of two sets each: (n,) participants, queries, preferences and (n, 2) the rest."""

    participants: NDArray[np.intp]
    queries: NDArray[np.intp]
    scores: FloatArray
    metrics: tuple[FloatArray, FloatArray]
    set_1_preferred: BoolArray


class Outcome(NamedTuple):
    """One figure of one study: (low, high) of the interval, and p of no difference."""

    way: str
    statistic: str
    low: float
    high: float
    p: float


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate studies of all designs, on all cores."""
    with ProcessPoolExecutor() as pool:
        return measure(seed, FULL_STUDIES if full else STUDIES, DESIGNS, pool.map)


def measure(
    seed: int,
    studies: int,
    designs: tuple[Design, ...],
    run_each: Callable[..., Iterator[list[Outcome]]] = map,
) -> dict[str, Any]:
    """Count the intervals that contain the truth and the tests that reject it.

    Args:
        seed: of the truth, the studies and the resamples.
        studies: how many of each design.
        run_each: calls `outcomes` for each study, as `map` does.
    """
    truth = true_values(np.random.default_rng((seed, 0)))
    cases: list[dict[str, Any]] = []
    for design in designs:
        simulated = list(run_each(outcomes, *zip(*jobs(design, seed, studies), strict=True)))
        cases += summarize(design, simulated, truth)
        print(f"{design.participants} participants, overlap {design.name}", file=sys.stderr)
    ours = [case for case in cases if case["way"] == "default"]
    return {
        "name": "coverage",
        "truth": truth,
        "level": 0.95,
        "studies": studies,
        "resamples": RESAMPLES,
        "permutations": PERMUTATIONS,
        "seed": seed,
        "within_goal": sum(GOAL[0] <= case["coverage"] <= GOAL[1] for case in ours),
        "of": len(ours),
        "cases": cases,
    }


def jobs(design: Design, seed: int, studies: int) -> Iterator[tuple[Design, tuple[int, ...]]]:
    """The arguments of `outcomes` for each study of a design."""
    for number in range(studies):
        yield design, (seed, design.participants, design.overlap or 0, sum(design.counts), number)


def true_values(rng: np.random.Generator) -> dict[str, float]:
    """The statistics of the first metric over answers that share neither person nor query."""
    every = np.arange(TRUTH_QUESTIONS)
    answers = answer(rng, every, every)
    values, scores = answers.metrics[0], answers.scores
    higher = (values[:, 0] > values[:, 1]) == answers.set_1_preferred
    rho = float(spearmanr(values.ravel(), scores.ravel()).statistic)
    return {"rho": rho, "tie_half": float(higher.mean())}


def assigned(rng: np.random.Generator, design: Design) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Who answers which query, (n,) each: every participant as many, with partners at random."""
    participants, overlap, counts = design
    if counts:
        return np.repeat(np.arange(participants), counts), np.arange(sum(counts))
    if overlap is None:
        people = np.repeat(np.arange(participants), CROSSED_QUESTIONS)
        return people, np.tile(np.arange(CROSSED_QUESTIONS), participants)
    people = np.concatenate([rng.permutation(participants) for _ in range(QUESTIONS)])
    place = np.arange(len(people))
    groups_per_round = -(-participants // overlap)
    queries = place // participants * groups_per_round + place % participants // overlap
    return people, queries


def answer(
    rng: np.random.Generator, people: NDArray[np.intp], queries: NDArray[np.intp]
) -> Answers:
    """Simulate the answers to n questions; see the module for the model."""
    n_people, n_queries = int(people.max()) + 1, int(queries.max()) + 1
    offsets = rng.normal(0, PERSON, n_people)[people] + rng.normal(0, QUERY, n_queries)[queries]
    latent = 3 + offsets[:, None] + rng.normal(0, SET, (n_queries, 2))[queries]
    metrics = []
    for _ in range(2):
        values = rng.normal(size=(n_queries, 2))[queries]
        slopes = SLOPE + rng.normal(0, TILT_OF_PERSON, n_people)[people]
        slopes += rng.normal(0, TILT_OF_QUERY, n_queries)[queries]
        latent = latent + slopes[:, None] * values
        metrics.append(values)
    latent = latent + rng.normal(0, ANSWER, latent.shape)
    preferred = latent[:, 0] + rng.normal(0, CHOICE, len(people)) > latent[:, 1]
    scores = np.clip(np.round(latent), 1, 5)
    return Answers(people, queries, scores, (metrics[0], metrics[1]), preferred)


def as_release(answers: Answers) -> tuple[Release, MetricValues]:
    """The answers as a release, and the two metrics' values by set_id."""
    n = len(answers.participants)
    questions = [f"q{number}" for number in range(n)]
    people = [f"p{number:03}" for number in answers.participants]
    queries = [f"t{number:05}" for number in answers.queries]
    sets = pd.DataFrame(
        {
            "set_id": [f"{question}.{side}" for question in questions for side in (1, 2)],
            "question_id": np.repeat(questions, 2),
            "participant_id": np.repeat(people, 2),
            "query_id": np.repeat(queries, 2),
            "score": answers.scores.ravel().astype(np.int64),
            "system": None,
            "image_ids": [()] * (2 * n),
        }
    )
    preferences = pd.DataFrame(
        {
            "question_id": questions,
            "participant_id": people,
            "query_id": queries,
            "set_1": sets["set_id"].to_numpy()[::2],
            "set_2": sets["set_id"].to_numpy()[1::2],
            "score_1": answers.scores[:, 0].astype(np.int64),
            "score_2": answers.scores[:, 1].astype(np.int64),
            "preferred": np.where(answers.set_1_preferred, 1, 2),
        }
    )
    release = Release(
        folder=Path(),
        name="simulated",
        version="1.0.0",
        kind="hp",
        study="simulated",
        simulated=True,
        preferences=preferences,
        sets=sets,
        queries=pd.DataFrame({"query_id": sorted(set(queries)), "target_id": None}),
    )
    values = {
        name: pd.Series(each.ravel(), index=sets["set_id"])
        for name, each in zip(("first", "second"), answers.metrics, strict=True)
    }
    return release, values


def outcomes(design: Design, seed: tuple[int, ...]) -> list[Outcome]:
    """The intervals of the first metric and the tests of the two metrics in one study."""
    rng = np.random.default_rng(seed)
    release, values = as_release(answer(rng, *assigned(rng, design)))
    results = []
    participants = Bootstrap.of_release(
        release, unit="participant", n_resamples=RESAMPLES, seed=seed[-1]
    )
    for way, bootstrap in {
        "participants": participants,
        "default": Bootstrap.of_release(release, n_resamples=RESAMPLES, seed=seed[-1]),
    }.items():
        (comparison,) = compare_all(release, values, bootstrap, Swaps(PERMUTATIONS, seed[-1]))
        tests = {"rho": comparison.spearman, "tie_half": comparison.tie_half}
        for statistic in SENSITIVE_STATISTICS:
            rows, drawn = resampled_statistic(statistic, release, values["first"], bootstrap)
            interval = bootstrap.interval(drawn, rows, bounds=BOUNDS[statistic])
            if way == "participants":
                interval = percentile_interval(
                    drawn[1:], unit="participant", n_clusters=design.participants, seed=seed[-1]
                )
            results.append(Outcome(way, statistic, interval.low, interval.high, tests[statistic].p))
    return results


def resampled_statistic(
    statistic: Statistic, release: Release, values: pd.Series[float], bootstrap: Bootstrap
) -> tuple[pd.DataFrame, FloatArray]:
    """A metric's `rho` over the sets, or `tie_half` over the questions, in each resample.

    Returns the (n, ...) rows that it comes from, and its (length,) values, NaN where undefined.
    """
    if statistic == "rho":
        table = with_values(release.sets, values)
        x, y = (table[column].to_numpy(dtype=np.float64) for column in ("value", "score"))
        return table, resampled_spearman(bootstrap, table, x, y)
    rows, set_1, (difference,) = preference.usable_pairs(
        release.preferences, metric_difference(release.preferences, values)
    )
    terms = preference.tie_half(difference, set_1)
    return rows, bootstrap.ratios(rows, terms.hits[:, None], terms.counted[:, None])[:, 0]


def summarize(
    design: Design, studies: list[list[Outcome]], truth: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Coverage of the intervals and size of the tests, by way and statistic."""
    for same in zip(*studies, strict=True):
        low, high, p = (np.array(each) for each in list(zip(*same, strict=True))[2:])
        way, statistic = same[0].way, same[0].statistic
        coverage = float(((low <= truth[statistic]) & (truth[statistic] <= high)).mean())
        yield {
            "participants": design.participants,
            "overlap": design.name,
            "way": way,
            "statistic": statistic,
            "coverage": coverage,
            "standard_error": sqrt(coverage * (1 - coverage) / len(low)),
            "mean_length": float((high - low).mean()),
            "size": float((p <= ALPHA).mean()),
        }


def markdown(result: dict[str, Any]) -> str:
    """The table of docs/analysis.md: participants alone, then the default."""
    lines = [
        f"| people | people a query | {' | '.join(COLUMNS)} |",
        f"|{'---|' * (len(COLUMNS) + 2)}",
    ]
    cells = {
        (case["participants"], case["overlap"], case["way"], case["statistic"]): case
        for case in result["cases"]
    }
    for people, overlap in dict.fromkeys(key[:2] for key in cells):
        columns = [
            " / ".join(
                f"{cells[people, overlap, way, statistic][figure]:.2f}"
                for way in ("participants", "default")
            )
            for figure, statistic in COLUMNS.values()
        ]
        lines.append(f"| {people} | {overlap} | {' | '.join(columns)} |")
    note = (
        f"Each cell: participants alone / default. {result['studies']:,} simulated studies a row, "
        f"{result['resamples']:,} resamples, {result['permutations']:,} permutations, seed "
        f"{result['seed']}. {result['within_goal']} of {result['of']} coverages of the default lie "
        f"in {GOAL[0]}-{GOAL[1]}."
    )
    return "\n".join([*lines, "", note])
