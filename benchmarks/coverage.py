"""How often 95% intervals contain the truth, and how often tests reject a true null hypothesis.

Many studies are simulated for each design that people run: so many participants, and so many of
them for each query ("overlap"; crossed: all participants judge the same 30 queries). A score is
a sum of effects of the participant, the query and the set, and two metrics that follow it equally
well on average, but not for each participant and each query; it is rounded to 1-5. The set with the
higher latent value is preferred, with some noise.

In the last design participants have 10 to 300 questions of their own.

`HARDER` designs draw from a population that is less kind: metrics with heavy tails, a binary one,
a skewed difficulty of queries, tastes of people and queries for systems, a favoured side, and human
ties. There the default alone is measured, on more statistics and with 2,000 studies. An interval's
length is compared with the oracle's: 2 x 1.96 standard deviations over all studies of the design.

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
from scipy.stats import norm, spearmanr

from hsfiq.analysis.data.columns import metric_difference
from hsfiq.analysis.data.metrics import MetricValues
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.json_results import BoolArray, FloatArray
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate
from hsfiq.analysis.resampling.intervals import CORRELATION, percentile_interval
from hsfiq.analysis.resampling.permutation import Swaps
from hsfiq.analysis.resampling.spearman import resampled_spearman
from hsfiq.analysis.sensitivity import SENSITIVE_STATISTICS, Statistic
from hsfiq.analysis.statistics import preference
from hsfiq.analysis.statistics.comparison import compare_all
from hsfiq.analysis.statistics.correlation import spearman, with_values
from hsfiq.analysis.statistics.preference import tie_half_rate
from hsfiq.analysis.systems.strengths import count_wins, log_strengths, strengths
from hsfiq.analysis.systems.systems import compared_systems, names_of, win_rates

QUESTIONS, CROSSED_QUESTIONS = 50, 30
STUDIES, FULL_STUDIES, FULL_STUDIES_HARDER = 60, 400, 2000
RESAMPLES, RESAMPLES_HARDER, PERMUTATIONS = 400, 2000, 399
TRUTH_QUESTIONS = 4_000_000
GOAL = (0.93, 0.97)
ALPHA = 0.05
WIDTH_IN_SD = 2 * norm.ppf(1 - ALPHA / 2)
GOAL_HARDER = (0.935, 0.965)
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


STRENGTHS = np.array([0.4, 0.1, -0.1, -0.4])
PERSON_TASTE, QUERY_TASTE, SIDE, TIE = 0.25, 0.3, 0.08, 0.12
BINARY_SHARE, BINARY_SLOPE = 0.3, 0.8
CUTS = (-1.6, -0.6, 0.4, 1.5)
"""Of the harder population: systems, tastes, the favoured side, and where scores change."""


class Design(NamedTuple):
    """The number of participants, and how many of them judge each query (None: all).

    `counts` are the numbers of the participants' questions, if these differ; then each query has
    one judge. `questions` are those of each participant, if not as usual; `harder` is whether
    answers come from the harder population.
    """

    participants: int
    overlap: int | None
    counts: tuple[int, ...] = ()
    questions: int | None = None
    harder: bool = False

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
HARDER = (
    Design(61, 1, questions=50, harder=True),
    Design(6, 1, questions=50, harder=True),
    UNEQUAL._replace(harder=True),
    Design(6, None, questions=50, harder=True),
    Design(60, None, questions=5, harder=True),
    Design(24, 3, questions=20, harder=True),
    Design(15, None, questions=15, harder=True),
)
"""The last two were tried once, after everything was chosen."""


class Answers(NamedTuple):
    """n questions of two sets each: (n,) participants, queries, preferences and (n, 2) the rest.

    The harder population has a third metric, human ties and systems, too.
    """

    participants: NDArray[np.intp]
    queries: NDArray[np.intp]
    scores: FloatArray
    metrics: tuple[FloatArray, ...]
    set_1_preferred: BoolArray
    is_tie: BoolArray | None = None
    systems: NDArray[np.intp] | None = None


class Outcome(NamedTuple):
    """One figure of one study: (low, high) of the interval, and p of no difference."""

    way: str
    statistic: str
    low: float
    high: float
    p: float
    value: float = np.nan


def run(seed: int, full: bool) -> dict[str, Any]:
    """Simulate studies of all designs, on all cores."""
    with ProcessPoolExecutor() as pool:
        result = measure(seed, FULL_STUDIES if full else STUDIES, DESIGNS, pool.map)
        studies = FULL_STUDIES_HARDER if full else STUDIES
        return {**result, "harder": measure(seed, studies, HARDER, pool.map)}


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
    is_harder = designs[0].harder
    truth = (harder_truth if is_harder else true_values)(np.random.default_rng((seed, 0)))
    goal = GOAL_HARDER if is_harder else GOAL
    cases: list[dict[str, Any]] = []
    for design in designs:
        simulate = harder_outcomes if design.harder else outcomes
        simulated = list(run_each(simulate, *zip(*jobs(design, seed, studies), strict=True)))
        cases += summarize(design, simulated, truth)
        print(f"{design.participants} participants, overlap {design.name}", file=sys.stderr)
    ours = [case for case in cases if case["way"] == "default"]
    return {
        "name": "coverage",
        "truth": truth,
        "level": 0.95,
        "studies": studies,
        "resamples": RESAMPLES_HARDER if is_harder else RESAMPLES,
        "permutations": PERMUTATIONS,
        "seed": seed,
        "within_goal": sum(goal[0] <= case["coverage"] <= goal[1] for case in ours),
        "of": len(ours),
        "cases": cases,
    }


def jobs(design: Design, seed: int, studies: int) -> Iterator[tuple[Design, tuple[int, ...]]]:
    """The arguments of `outcomes` for each study of a design."""
    key: tuple[int, ...] = (seed, design.participants, design.overlap or 0, sum(design.counts))
    if design.harder:
        key = (*key, design.questions or 0)
    for number in range(studies):
        yield design, (*key, number)


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
    participants, overlap, counts = design[:3]
    if counts:
        return np.repeat(np.arange(participants), counts), np.arange(sum(counts))
    if overlap is None:
        questions = design.questions or CROSSED_QUESTIONS
        people = np.repeat(np.arange(participants), questions)
        return people, np.tile(np.arange(questions), participants)
    questions = design.questions or QUESTIONS
    people = np.concatenate([rng.permutation(participants) for _ in range(questions)])
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


def harder_answer(
    rng: np.random.Generator, people: NDArray[np.intp], queries: NDArray[np.intp]
) -> Answers:
    """Simulate the answers to n questions from the harder population; see the module."""
    n_people, n_queries, n_systems = int(people.max()) + 1, int(queries.max()) + 1, len(STRENGTHS)
    first = rng.integers(n_systems, size=n_queries)
    other = (first + rng.integers(1, n_systems, size=n_queries)) % n_systems
    systems = np.stack([first, other], axis=1)[queries]
    difficulty = QUERY * rng.standard_exponential(n_queries)[queries]
    latent = rng.normal(0, PERSON, n_people)[people][:, None] - difficulty[:, None]
    latent = latent + rng.normal(0, SET, (n_queries, 2))[queries] + STRENGTHS[systems]
    latent += rng.normal(0, PERSON_TASTE, (n_people, n_systems))[people[:, None], systems]
    latent += rng.normal(0, QUERY_TASTE, (n_queries, n_systems))[queries[:, None], systems]
    metrics = []
    for _ in range(2):
        values = rng.standard_t(5, (n_queries, 2))[queries]
        slopes = SLOPE + rng.normal(0, TILT_OF_PERSON, n_people)[people]
        slopes += rng.normal(0, TILT_OF_QUERY, n_queries)[queries]
        latent += slopes[:, None] * values
        metrics.append(values)
    metrics.append((rng.random((n_queries, 2)) < BINARY_SHARE).astype(np.float64)[queries])
    slopes = BINARY_SLOPE + rng.normal(0, TILT_OF_PERSON, n_people)[people]
    latent += slopes[:, None] * metrics[-1] + rng.normal(0, ANSWER, latent.shape)
    lead = latent[:, 0] - latent[:, 1] + SIDE + rng.normal(0, CHOICE, len(people))
    scores = 1.0 + np.digitize(latent, CUTS)
    return Answers(people, queries, scores, tuple(metrics), lead > 0, np.abs(lead) < TIE, systems)


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
            "system": None if answers.systems is None else answers.systems.ravel().astype(str),
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
    if answers.is_tie is not None:
        preferences.loc[answers.is_tie, "preferred"] = 0
    for side in (1, 2):
        preferences[f"system_{side}"] = sets["system"].to_numpy()[side - 1 :: 2]
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
        for name, each in zip(("first", "second", "binary"), answers.metrics, strict=False)
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
            if way == "participants":
                interval = percentile_interval(
                    drawn[1:], unit="participant", n_clusters=design.participants, seed=seed[-1]
                )
            elif statistic == "tie_half":
                rate = tie_half_rate(release.preferences, values["first"], bootstrap)
                interval = rate.ci or bootstrap.undefined_interval(rows)
            else:
                interval = bootstrap.interval(drawn, rows, bounds=CORRELATION)
            p, value = tests[statistic].p, float(drawn[0])
            results.append(Outcome(way, statistic, interval.low, interval.high, p, value))
    return results


def harder_truth(rng: np.random.Generator) -> dict[str, float]:
    """The harder population's statistics, as `true_values`."""
    every = np.arange(TRUTH_QUESTIONS)
    answers = harder_answer(rng, every, every)
    assert answers.systems is not None
    assert answers.is_tie is not None
    decided = ~answers.is_tie
    rates = {}
    for name, values in (
        ("tie_half", answers.metrics[0]),
        ("tie_half, binary", answers.metrics[2]),
    ):
        gap = (values[:, 0] - values[:, 1])[decided]
        rates[name] = preference.tie_half(gap, answers.set_1_preferred[decided]).rate
    share = np.where(answers.is_tie, 0.5, answers.set_1_preferred)
    wins = count_wins(answers.systems[:, 0], answers.systems[:, 1], share, len(STRENGTHS))
    return {
        "rho": float(spearmanr(answers.metrics[0].ravel(), answers.scores.ravel()).statistic),
        **rates,
        "rho, difference": 0.0,
        "win rate": float(wins[0].sum() / (wins[0].sum() + wins[:, 0].sum())),
        "strength": float(log_strengths(wins)[0]),
    }


def harder_outcomes(design: Design, seed: tuple[int, ...]) -> list[Outcome]:
    """The default's intervals in one study of the harder population, and the test of rho."""
    rng = np.random.default_rng(seed)
    release, values = as_release(harder_answer(rng, *assigned(rng, design)))
    bootstrap = Bootstrap.of_release(release, n_resamples=RESAMPLES_HARDER, seed=seed[-1])
    two = {name: values[name] for name in ("first", "second")}
    (comparison,) = compare_all(release, two, bootstrap, Swaps(PERMUTATIONS, seed[-1]))
    gap = comparison.spearman
    names = names_of(release)
    compared = compared_systems(release.preferences, names)
    share = np.choose(compared["preferred"].to_numpy(), (0.5, 1.0, 0.0))
    rates = {
        "tie_half": tie_half_rate(release.preferences, values["first"], bootstrap),
        "tie_half, binary": tie_half_rate(release.preferences, values["binary"], bootstrap),
    }
    absent = Estimate(np.nan, 0)  # with few queries, a system may be in none
    estimates = {
        "win rate": win_rates(compared, names, bootstrap).get("0", absent),
        "strength": strengths(compared, share, names, bootstrap).estimates.get("0", absent),
    }
    rho = spearman(release.sets, values["first"], bootstrap)
    figures = [("rho", rho.rho, rho.ci, np.nan), ("rho, difference", gap.difference, gap.ci, gap.p)]
    figures += [(name, each.rate, each.ci, np.nan) for name, each in rates.items()]
    figures += [(name, each.value, each.ci, np.nan) for name, each in estimates.items()]
    ends = [(np.nan, np.nan) if ci is None else (ci.low, ci.high) for _, _, ci, _ in figures]
    return [
        Outcome("default", name, *own, p, value)
        for (name, value, _, p), own in zip(figures, ends, strict=True)
    ]


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
        low, high, p, values = (np.array(each) for each in list(zip(*same, strict=True))[2:])
        way, statistic = same[0].way, same[0].statistic
        defined = ~np.isnan(low + high)
        low, high, values = low[defined], high[defined], values[defined]
        coverage = float(((low <= truth[statistic]) & (truth[statistic] <= high)).mean())
        yield {
            "participants": design.participants,
            "overlap": design.name,
            "way": way,
            "statistic": statistic,
            "coverage": coverage,
            "undefined": int((~defined).sum()),
            "standard_error": sqrt(coverage * (1 - coverage) / len(low)),
            "mean_length": float((high - low).mean()),
            "size": float((p <= ALPHA).mean()),
            "of_oracle": float((high - low).mean() / (WIDTH_IN_SD * values.std())),
        }


def markdown(result: dict[str, Any]) -> str:
    """The table of docs/reference/statistics.md: participants alone, then the default."""
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
    if "harder" in result:
        note += "\n\n" + harder_markdown(result["harder"])
    return "\n".join([*lines, "", note])


def harder_markdown(result: dict[str, Any]) -> str:
    """The second table: coverage, and in brackets the length as a share of the oracle's."""
    rows: dict[tuple[int, str], dict[str, dict[str, Any]]] = {}
    for case in result["cases"]:
        rows.setdefault((case["participants"], case["overlap"]), {})[case["statistic"]] = case
    statistics = list(next(iter(rows.values())))
    lines = [
        f"| people | people a query | {' | '.join(statistics)} | size, rho |",
        f"|{'---|' * (len(statistics) + 3)}",
    ]
    for (people, overlap), cases in rows.items():
        cells = [f"{case['coverage']:.3f} ({case['of_oracle']:.2f})" for case in cases.values()]
        size = cases["rho, difference"]["size"]
        lines.append(f"| {people} | {overlap} | {' | '.join(cells)} | {size:.3f} |")
    note = (
        f"{result['studies']:,} studies a row, {result['resamples']:,} resamples, seed "
        f"{result['seed']}. {result['within_goal']} of "
        f"{result['of']} coverages lie in {GOAL_HARDER[0]}-{GOAL_HARDER[1]}."
    )
    return "\n".join([*lines, "", note])
