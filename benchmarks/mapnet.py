"""MAPNet and SPRC in miniature: with and without each of their terms.

The small Q-Former is trained on the drawn catalogue with some losses of a system left out, and in
the three readings of MAPNet's C. With the same seed, all rows have the same catalogue, pre-trained
weights and batches. Recall is that after the last epoch, on the validation triplets: nothing is
chosen on them.

Each seed's figures have 95% percentile intervals over resampled targets, and differences to the
system's first row use the same resamples. The summary gives the mean, lowest and highest value over
seeds: three are too few for an interval of the mean.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from benchmarks.ablation_trials import one_thread
from benchmarks.agreement import interval
from benchmarks.trained_systems import prepare_backbone
from hsfiq.model.data import TrainingData, drawn, drawn_size, rows_by_pool
from hsfiq.model.image_tokens import FeatureCache
from hsfiq.model.retrieval.loading import load_retriever
from hsfiq.model.retrieval.training import train_system
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.inference import Inference, ranks
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.system_recipes import SystemRecipe, system_on_drawn, system_recipe

CPU = torch.device("cpu")
KS = (1, 10)
RESAMPLES = 1000

ROWS: dict[str, dict[str, dict[str, str]]] = {
    "mapnet": {
        "contrastive": {"msi_weight": "0", "rp_weight": "0"},
        "contrastive + MSI": {"rp_weight": "0"},
        "contrastive + RPLoss": {"msi_weight": "0"},
        "contrastive + MSI + RPLoss": {},
        **{
            f"RPLoss alone, C: {proximity}": {
                "contrastive_weight": "0",
                "msi_weight": "0",
                "rp_weight": "100",
                "proximity": proximity,
            }
            for proximity in ("cosine-distance", "euclidean", "printed")
        },
    },
    "sprc": {
        "itc": {"regularisation": "0", "alignment": "0"},
        "itc + rtc": {"alignment": "0"},
        "itc + align": {"regularisation": "0"},
        "itc + rtc + align": {},
    },
}
"""What each row changes in the recipe, by system; the first is what the others are compared to."""

Rows = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """`limit` is the approximate number of training triplets; `rows` are trained, by system."""

    seeds: int
    limit: int
    epochs: int
    rows: Rows = field(
        default_factory=lambda: {name: tuple(ROWS[name]) for name in ROWS}, hash=False
    )


FULL = Plan(seeds=3, limit=1000, epochs=6)
QUICK = Plan(
    seeds=1,
    limit=300,
    epochs=3,
    rows={
        "mapnet": ("contrastive", "contrastive + MSI + RPLoss", "RPLoss alone, C: printed"),
        "sprc": ("itc", "itc + rtc + align"),
    },
)


@dataclass(frozen=True, slots=True)
class Trial:
    system: str
    row: str
    seed: int
    plan: Plan

    @property
    def recipe(self) -> SystemRecipe:
        base = system_on_drawn(system_recipe(f"{self.system}-fashioniq"))
        values = {**ROWS[self.system][self.row], "val_recall": ",".join(map(str, KS))}
        values |= {
            "seed": str(base.seed + self.seed),
            "batch": "64",
            "epochs": str(self.plan.epochs),
        }
        return base.with_values(values)


@dataclass(frozen=True, slots=True)
class Trained:
    ranks: list[int]
    targets: list[str]
    seconds: float

    def recall(self, k: int) -> float:
        return fmean(rank <= k for rank in self.ranks)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train every row."""
    result = measure(seed, FULL if full else QUICK)
    if not full:
        result["note"] = (
            "short: one seed, a few rows, systems hardly trained; --full is the benchmark"
        )
    return result


def measure(seed: int, plan: Plan) -> dict[str, Any]:
    """Run a plan, as many trainings at a time as there are cores."""
    started = perf_counter()
    seeds = range(seed, seed + plan.seeds)
    trials = [
        Trial(system, row, number, plan)
        for number in seeds
        for system, rows in plan.rows.items()
        for row in rows
    ]
    trained: dict[Trial, Trained] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=one_thread) as pool,
    ):
        folder = Path(name)
        first = [next(trial for trial in trials if trial.seed == number) for number in seeds]
        for preparation in [pool.submit(prepare, folder, trial) for trial in first]:
            preparation.result()
        ready = perf_counter()
        jobs = {trial: pool.submit(train, folder, trial) for trial in trials}
        for trial, job in jobs.items():
            trained[trial] = job.result()
            shares = (f"R@{k} {trained[trial].recall(k):.3f}" for k in KS)
            about = f"{trial.system}, {trial.row}, seed {trial.seed}"
            print(f"{about}: {', '.join(shares)}", file=sys.stderr)
    cases = [case for number in seeds for case in cases_of(number, trained, plan.rows)]
    return {
        "name": "mapnet",
        "in_the_spirit_of": "MAPNet: its method is known from a poster alone",
        "seeds": plan.seeds,
        "triplets": plan.limit,
        "epochs": plan.epochs,
        "set_up_seconds": round(ready - started),
        "seconds": round(perf_counter() - ready),
        "intervals": "95%, targets resampled, for each seed; over seeds mean, lowest and highest",
        "summary": summary(cases),
        "cases": cases,
    }


def prepare(folder: Path, trial: Trial) -> None:
    """Draw a seed's pictures and pre-train its backbone, which all its rows start from."""
    prepare_backbone(trial.recipe, data_of(folder, trial), cache_of(folder, trial))


def data_of(folder: Path, trial: Trial) -> TrainingData:
    size, recipe = drawn_size(trial.plan.limit), trial.recipe
    return drawn(folder / f"pictures-{trial.seed}", recipe.seed, *size, recipe.pool)


def cache_of(folder: Path, trial: Trial) -> Path:
    return folder / f"cache-{trial.seed}"


def train(folder: Path, trial: Trial) -> Trained:
    """Train one row and rank the validation triplets."""
    recipe, start = trial.recipe, process_time()
    data, cache = data_of(folder, trial), cache_of(folder, trial)
    out = folder / f"{trial.system}-{trial.row}-{trial.seed}".replace(" ", "_").replace(":", "")
    paths = ScorerPaths(cache=cache)
    train_system(recipe, TrainingJob(data, out, paths, Distributed(CPU), Callback()))
    return evaluated(data, out / "last.json", cache, process_time() - start)


def evaluated(data: TrainingData, checkpoint: Path, cache: Path, seconds: float) -> Trained:
    loaded = load_retriever(checkpoint, None, CPU)
    tokens = FeatureCache.open(cache, loaded.frozen_encoder)
    tokens.fill(data.images, device=CPU)
    inference = Inference(loaded.retriever, tokens, Distributed(CPU))
    by_corpus = ranks(data, inference, loaded.recipe.pooling, without_reference=False)
    rows = [row for rows in rows_by_pool(data.val).values() for row in rows]
    return Trained(
        ranks=torch.cat(list(by_corpus.values())).tolist(),
        targets=[data.val[row].target for row in rows],
        seconds=seconds,
    )


def cases_of(seed: int, trained: dict[Trial, Trained], planned: Rows) -> list[dict[str, Any]]:
    cases = []
    for system, rows in planned.items():
        results = {
            trial.row: result
            for trial, result in trained.items()
            if (trial.seed, trial.system) == (seed, system)
        }
        base = results[rows[0]]
        for row in rows:
            case: dict[str, Any] = {"system": system, "row": row, "seed": seed}
            for k in KS:
                case[f"recall@{k}"] = compared(results[row], base, k, seed)
            n = len(results[row].ranks)
            cases.append({**case, "n_queries": n, "cpu_seconds": round(results[row].seconds)})
    return cases


def compared(result: Trained, base: Trained, k: int, seed: int) -> dict[str, Any]:
    """Recall@k and its difference to the base, with intervals over the same resampled targets."""
    value, resamples = resampled_recall(result, k, seed)
    base_value, base_resamples = resampled_recall(base, k, seed)
    return {
        "value": value,
        "ci": interval(resamples),
        "above_first": value - base_value,
        "above_first_ci": interval(resamples - base_resamples),
    }


def resampled_recall(result: Trained, k: int, seed: int) -> tuple[float, np.ndarray]:
    """Recall@k, and its values with the targets drawn anew: several queries may share one."""
    hits = np.array(result.ranks) <= k
    _, target = np.unique(result.targets, return_inverse=True)
    n_hits, n_queries = np.bincount(target, weights=hits), np.bincount(target)
    draws = np.random.default_rng(seed).integers(len(n_queries), size=(RESAMPLES, len(n_queries)))
    return result.recall(k), n_hits[draws].sum(axis=1) / n_queries[draws].sum(axis=1)


def summary(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row over the seeds."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in cases:
        groups.setdefault((case["system"], case["row"]), []).append(case)
    return [
        {"system": system, "row": row}
        | {
            f"recall@{k}": {
                "mean": fmean(values),
                "lowest": min(values),
                "highest": max(values),
            }
            for k in KS
            for values in [[case[f"recall@{k}"]["value"] for case in group]]
        }
        for (system, row), group in groups.items()
    ]


def markdown(result: dict[str, Any]) -> str:
    """The result as Markdown: the means over seeds, then every seed."""
    about = [f"- {key}: {result[key]}" for key in result if key not in ("summary", "cases", "name")]
    heads = [f"R@{k}" for k in KS]
    over = [["system", "row", *heads]]
    over += [
        [case["system"], case["row"], *(spread(case[f"recall@{k}"]) for k in KS)]
        for case in result["summary"]
    ]
    each = [
        ["system", "row", "seed", *heads, *(f"{head} above the first" for head in heads), "CPU s"]
    ]
    each += [
        [
            *(case["system"], case["row"], str(case["seed"])),
            *(with_interval(case[f"recall@{k}"], "value", "ci") for k in KS),
            *(with_interval(case[f"recall@{k}"], "above_first", "above_first_ci") for k in KS),
            str(case["cpu_seconds"]),
        ]
        for case in result["cases"]
    ]
    parts = ["# MAPNet and SPRC in miniature", "\n".join(about), table(over), table(each)]
    return "\n\n".join(parts)


def spread(figure: dict[str, float]) -> str:
    return f"{figure['mean']:.3f} ({figure['lowest']:.3f} to {figure['highest']:.3f})"


def with_interval(figure: dict[str, Any], key: str, ci: str) -> str:
    low, high = figure[ci]
    return f"{figure[key]:.3f} [{low:.3f}, {high:.3f}]"


def table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
