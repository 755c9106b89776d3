"""How negative sets are defined: CIRQRS' Table 7 and Figure 4 and QuRe's Figure 4, scaled down.

Six strategies train the small encoder on the drawn catalogue. With the same seed they have the
same catalogue, triplets, weights at the start, batches and warm-up; only the negatives after it
differ. With `--full`, `cirqrs` is also trained with other initial sizes of the set, and some
strategies once more from the scorer that `corpus` gave. All trainings share one feature cache. The
best epoch is chosen on the validation triplets, as in both papers; nothing is chosen on `test`,
whose combinations of colour and pattern do not occur in training.

The result also has the agreement with the simulated annotators of one study per split. Each seed's
figures have 95% percentile intervals: recall over resampled targets, agreement over resampled
participants. Differences to `corpus` use the same resamples. The summary gives the mean, lowest and
highest value over seeds: three are too few for an interval of the mean.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks import ablation_report
from benchmarks.ablation_trials import (
    BESIDE,
    SPLITS,
    STARTS,
    Judged,
    Lists,
    Sampled,
    Start,
    Trained,
    Trial,
    draw_catalogue,
    judge,
    one_thread,
    simulate,
    train,
)
from benchmarks.agreement import interval
from hsfiq.model.evaluation.drawn import Split
from hsfiq.model.recipes import DRAWN, SIZED, Strategy

STRATEGIES: tuple[Strategy, ...] = (
    *("corpus", "top-k", "after-target", "cirqrs"),
    *("qure", "qure-bounded"),
)
OWN_SIZES: dict[Strategy, int] = {"qure-bounded": 30}
"""Where `n_neg` is not the recipe's: of `qure-bounded`, how far its drops may lie."""
KS = (1, 10, 50)
RESAMPLES = 1000
WAY = ("strategy", "n_neg", "start", "split")
"""The keys that tell the rows of the summary apart."""
FIGURES = (*(f"recall@{k}" for k in KS), "rho", "tie_half")
INTERVALS = {
    "recall": "95%, targets resampled",
    "rho, tie_half": "95%, participants resampled",
    "summary": "no interval: the mean, the lowest and the highest of the seeds",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run.

    Attributes:
        seeds: number of catalogues, trainings and studies; the command line gives the first seed.
        limit: approximate number of training triplets.
        answers: per study.
        sizes: further initial sizes of the negative sets of `cirqrs`.
        continued: the strategies that also train from the scorer of `corpus`, with it as the first.
    """

    seeds: int
    limit: int
    epochs: int
    answers: int
    sizes: tuple[int, ...]
    continued: tuple[Strategy, ...] = ()


FULL = Plan(
    seeds=3,
    limit=2500,
    epochs=DRAWN["epochs"],
    answers=2000,
    sizes=(3, 50),
    continued=("corpus", "cirqrs", "qure", "qure-bounded"),
)
QUICK = Plan(seeds=1, limit=600, epochs=5, answers=400, sizes=())
"""Without --full: shorter trainings, on pools a sixth as large, to end soon."""

markdown, write = ablation_report.markdown, ablation_report.write


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train with every strategy, and evaluate the scorers on both splits."""
    result = measure(seed, FULL if full else QUICK)
    if not full:
        result["note"] = "short: one seed, scorers half trained; --full is the ablation"
    return result


def measure(seed: int, plan: Plan) -> dict[str, Any]:
    """Run a plan, as many parts at a time as there are cores."""
    trials = planned(seed, plan)
    studies = [(number, split) for number in range(seed, seed + plan.seeds) for split in SPLITS]
    names = list(dict.fromkeys(trial.name for trial in trials))
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=one_thread) as pool,
    ):
        folder = Path(name)
        first = [trial for trial in trials if trial.is_base and trial.start == "nothing"]
        preparations = [pool.submit(simulate, folder, *study, plan.answers) for study in studies]
        preparations += [pool.submit(draw_catalogue, folder, trial) for trial in first]
        for preparation in preparations:
            preparation.result()
        trained: dict[Trial, Trained] = {}
        for start in STARTS:  # those from a scorer need it
            begun = [trial for trial in trials if trial.start == start]
            jobs = [pool.submit(train, folder, trial) for trial in begun]
            for trial, job in zip(begun, jobs, strict=True):
                trained[trial] = job.result()
                print(f"trained {trial.name}, seed {trial.seed}", file=sys.stderr)
        judging = [pool.submit(judge, folder, *study, names) for study in studies]
        judged = {study: job.result() for study, job in zip(studies, judging, strict=True)}
    cases = [case for study in studies for case in cases_of(*study, trained, judged[study])]
    return {
        "name": "ablation",
        "simulated": True,
        "seeds": plan.seeds,
        "triplets": plan.limit,
        "epochs": plan.epochs,
        "answers": plan.answers,
        "same_warm_up": same_warm_up(trained),
        "intervals": INTERVALS,
        "summary": summary(cases),
        "beside": beside(judged),
        "cases": cases,
    }


def planned(seed: int, plan: Plan) -> list[Trial]:
    """Every training: with the usual sizes of sets, `cirqrs` with others, then continued ones."""
    variants: list[tuple[Strategy, int | None, Start]] = [
        (strategy, usual_size(strategy), "nothing") for strategy in STRATEGIES
    ]
    variants += [("cirqrs", size, "nothing") for size in plan.sizes]
    variants += [(strategy, usual_size(strategy), "corpus") for strategy in plan.continued]
    return [
        Trial(strategy, n_neg, number, plan.limit, plan.epochs, start)
        for number in range(seed, seed + plan.seeds)
        for strategy, n_neg, start in variants
    ]


def usual_size(strategy: Strategy) -> int | None:
    default: int = DRAWN["n_neg"]
    return OWN_SIZES.get(strategy, default) if strategy in SIZED else None


def same_warm_up(trained: dict[Trial, Trained]) -> bool:
    """Return whether the trainings of each seed and start were equal during the warm-up."""
    beginnings: dict[tuple[int, Start], set[tuple[float, ...]]] = {}
    for trial, result in trained.items():
        beginning = tuple(result.curve[: trial.recipe.period])
        beginnings.setdefault((trial.seed, trial.start), set()).add(beginning)
    return all(len(curves) == 1 for curves in beginnings.values())


def cases_of(
    seed: int, split: Split, trained: dict[Trial, Trained], judged: Judged
) -> list[dict[str, Any]]:
    """Every training's figures of one seed and split, compared with `corpus` of the same start."""
    of_seed = {trial: result for trial, result in trained.items() if trial.seed == seed}
    figures = {
        trial: {f"recall@{k}": recall(result.lists[split], k, seed) for k in KS}
        | {"rho": judged.rho[trial.name], "tie_half": judged.tie_half[trial.name]}
        for trial, result in of_seed.items()
    }
    base = {trial.start: values for trial, values in figures.items() if trial.is_base}
    return [
        {
            "strategy": trial.strategy,
            "n_neg": trial.n_neg,
            "start": trial.start,
            "seed": seed,
            "split": split,
            **{name: compared(figures[trial][name], base[trial.start][name]) for name in FIGURES},
            "n_queries": len(result.lists[split].ranks),
            "n_sets": judged.n_sets,
            "n_participants": judged.n_participants,
            "val_recall_by_epoch": result.curve,
            "mean_sizes_of_negative_sets": result.sizes,
        }
        for trial, result in of_seed.items()
    ]


def recall(lists: Lists, k: int, seed: int) -> Sampled:
    """Recall@k over all queries, resampled by target: several queries may share one."""
    hits = np.array(lists.ranks) <= k
    _, target = np.unique(lists.targets, return_inverse=True)
    n_hits, n_queries = np.bincount(target, weights=hits), np.bincount(target)
    draws = np.random.default_rng(seed).integers(len(n_queries), size=(RESAMPLES, len(n_queries)))
    return Sampled(float(hits.mean()), n_hits[draws].sum(axis=1) / n_queries[draws].sum(axis=1))


def compared(figure: Sampled, base: Sampled) -> dict[str, Any]:
    """A figure and its difference to that of `corpus`, with intervals."""
    return {
        "value": figure.value,
        "ci": interval(figure.resamples),
        "above_corpus": figure.value - base.value,
        "above_corpus_ci": interval(figure.resamples - base.resamples),
    }


def summary(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarize the seeds for every strategy and split."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for case in cases:
        key = tuple(case[name] for name in WAY)
        groups.setdefault(key, []).append(case)
    return [
        dict(zip(WAY, key, strict=True))
        | {name: over_seeds([case[name] for case in group]) for name in FIGURES}
        for key, group in groups.items()
    ]


def over_seeds(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One figure of several seeds; `n_clear` counts those whose difference's interval omits 0."""
    clear = (low > 0 or high < 0 for low, high in (figure["above_corpus_ci"] for figure in figures))
    return spread([figure["value"] for figure in figures]) | {
        "above_corpus": spread([figure["above_corpus"] for figure in figures])
        | {"n_clear": sum(clear)}
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Each seed's value, their mean, the lowest and the highest."""
    return {"mean": fmean(values), "lowest": min(values), "highest": max(values), "seeds": values}


def beside(judged: dict[tuple[int, Split], Judged]) -> list[dict[str, Any]]:
    """Return the agreement of the metrics that need no training."""
    return [
        {
            "metric": metric,
            "seed": seed,
            "split": split,
            **{
                name: {
                    "value": figures_by_metric[metric].value,
                    "ci": interval(figures_by_metric[metric].resamples),
                }
                for name, figures_by_metric in (("rho", study.rho), ("tie_half", study.tie_half))
            },
        }
        for (seed, split), study in judged.items()
        for metric in BESIDE
    ]
