"""The loop: a scorer retrained on yesterday's answers, held against answers that it has not seen.

A scorer is trained from nothing on triplets by `hsfiq train`. Simulated annotators answer a study;
its release holds out a part of the triplets. `hsfiq train preference` learns from the answers to
the others, and both scorers, and `recall@5`, are correlated with the scores given to what is held
out. The same annotators answer both parts: what is new is the triplets. Intervals are 95%
percentile ones from resampled participants, the same for all three, so that the difference is
paired; with --full, of the mean over seeds, and for several numbers of answers. The annotators are
simulated: nothing here says what people would answer.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from analysis.answers import subset
from analysis.metrics import parse_metric
from analysis.release import read_release
from benchmarks.agreement import hsfiq, interval, rank_correlations, resampled
from hsfiq import demo
from hsfiq.releases.splits import verify_no_leak
from model.data.sources import CATALOGUE, read
from model.data.triplets import TrainingData
from model.loading import load_scorer
from model.preference import material
from model.preference.run import retrain
from model.preference.settings import Settings
from model.score_run import Where, score
from model.training.watchers import Watcher

METRICS = ("recall@5", "before", "after")
CPU = torch.device("cpu")
MIXED = {"mix": "3"}
"""Without triplets beside the answers, the scorer finds its targets less well than before."""


@dataclass(frozen=True)
class Plan:
    """What is run: how much of it, and with which options.

    Attributes:
        seeds: how many, each with a scorer, a study and annotators of its own.
        answers: of a study, held-out ones included.
        test_share: of the triplets.
        sizes: numbers of answers to learn from; the last is the result's.
        limit: triplets that the scorer is first trained on, about; mixed in when it is retrained.
        training: options of `hsfiq train` for the scorer to start from.
        values: of the recipe `preference`, where they are not its own.
    """

    seeds: int
    answers: int
    test_share: float
    sizes: tuple[int, ...]
    limit: int
    training: tuple[str, ...]
    values: Mapping[str, str]


QUICK = Plan(
    seeds=1,
    answers=800,
    test_share=0.5,
    sizes=(400,),
    limit=2000,
    training=("--set", "epochs=8"),
    values=MIXED,
)
FULL = Plan(
    seeds=3,
    answers=4000,
    test_share=0.5,
    sizes=(250, 500, 1000, 2000),
    limit=6000,
    training=("--set", "epochs=10"),
    values=MIXED,
)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Measure how much retraining gains."""
    torch.set_num_threads(1)  # tensors so small gain nothing by more
    return measure(seed, FULL if full else QUICK)


def measure(seed: int, plan: Plan) -> dict[str, Any]:
    """Close the loop for each seed, and take the means."""
    started = time.perf_counter()
    found = [loop(one, plan) for one in range(seed, seed + plan.seeds)]
    cases = [
        {"answers": size, "seeds": plan.seeds, **figures([it[size] for it in found])}
        for size in plan.sizes
    ]
    last = cases[-1]
    return {
        "name": "loop-learns",
        "simulated": True,
        "answers": last["answers"],
        "n_sets": sum(it[plan.sizes[-1]].n_sets for it in found),
        "n_participants": sum(it[plan.sizes[-1]].n_participants for it in found),
        **{key: last[key] for key in (*METRICS, "difference")},
        "seconds": time.perf_counter() - started,
        "cases": cases,
    }


@dataclass(frozen=True)
class Held:
    """What was measured on the held-out part for one seed and one number of answers.

    Attributes:
        rhos: of each metric, over all held-out sets.
        drawn: of each metric, of the same resamples.
        n_sets: held-out sets.
        n_participants: who gave the answers to them.
    """

    rhos: dict[str, float]
    drawn: dict[str, NDArray[np.float64]]
    n_sets: int
    n_participants: int


def figures(found: list[Held]) -> dict[str, Any]:
    """Means over the seeds, each with its interval, and what retraining adds."""
    rhos = {name: float(np.mean([it.rhos[name] for it in found])) for name in METRICS}
    drawn = {name: np.mean([it.drawn[name] for it in found], axis=0) for name in METRICS}
    return {
        **{name: {"rho": rhos[name], "ci": interval(drawn[name])} for name in METRICS},
        "difference": {
            "value": rhos["after"] - rhos["before"],
            "ci": interval(drawn["after"] - drawn["before"]),
        },
    }


def loop(seed: int, plan: Plan) -> dict[int, Held]:
    """One seed's loop: train, ask, release, retrain on each number of answers, measure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # One thread each: the scorer is trained while the annotators answer.
        command = partial(hsfiq, folder, OMP_NUM_THREADS="1")
        with ThreadPoolExecutor() as pool:
            training = pool.submit(
                command, "train", "cirqrs-fashioniq", "--data", "drawn", "--out", "init",
                "--images", CATALOGUE, "--set", f"seed={seed}", "--limit", str(plan.limit),
                *plan.training,
            )  # fmt: skip
            release = make_release(folder, command, seed, plan)
            training.result()
        recipe = load_scorer(folder / "init", None, CPU).recipe
        triplets = read(recipe, None, folder / CATALOGUE, plan.limit)
        return {size: retrained(folder, release, size, plan, triplets) for size in plan.sizes}


def make_release(folder: Path, command: partial[str], seed: int, plan: Plan) -> Path:
    """Simulate a study and release it with a part of its triplets held out."""
    release = folder / "all"
    command("demo", "--answers", str(plan.answers), "--seed", str(seed), "--dir", "study")
    command(
        "export", "--database", demo.database_url(folder / "study"), "--release", "hp",
        "--out", str(release), "--split", "triplet", "--split-seed", str(seed),
        "--test-share", str(plan.test_share),
    )  # fmt: skip
    return release


def retrained(folder: Path, release: Path, size: int, plan: Plan, triplets: TrainingData) -> Held:
    """Retrain on the first answers of the training part, and measure what is held out."""
    part = first_answers(release, folder / f"first-{size}", size)
    init, out, cache = folder / "init", folder / f"out-{size}", folder / "features"
    images = folder / "study" / demo.IMAGE_FOLDER
    settings = Settings.for_encoder("tiny").with_values(plan.values)
    retrain(material.Where(out, part, init, cache, images), settings, triplets, CPU, Watcher())
    scores = part.with_name(f"{part.name}.scores")
    for name, checkpoint in (("before", init), ("after", out)):
        score(Where(part, scores, checkpoint, cache, images), name, CPU, Watcher())
    return measured(part)


def first_answers(release: Path, folder: Path, n: int) -> Path:
    """The release with n questions to train with, those of the first participants."""
    shutil.copytree(release, folder)
    parts = verify_no_leak(folder)
    kept = [question for question, part in parts.items() if part == "train"][:n]
    left = set(kept)
    rows = [
        {"question_id": it, "part": "unused" if part == "train" and it not in left else part}
        for it, part in parts.items()
    ]
    path = folder / "splits.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    return folder


def measured(release: Path) -> Held:
    """Correlate each metric with the scores of the held-out sets, by participants' resamples."""
    whole = read_release(release)
    parts = verify_no_leak(release)
    held_out = whole.preferences["question_id"].map(parts) == "test"
    data = subset(whole, held_out)
    ids = data.sets["set_id"]
    values = {name: parse_metric(name).values(whole)[ids].to_numpy() for name in METRICS}
    everyone = resampled(values, data.sets, np.random.default_rng(0))
    return Held(
        rhos=rhos_of(values, data.sets["score"].to_numpy(dtype=float)),
        drawn=everyone,
        n_sets=len(data.sets),
        n_participants=data.n_participants,
    )


def rhos_of(
    values: dict[str, NDArray[np.float64]], scores: NDArray[np.float64]
) -> dict[str, float]:
    """Spearman's correlation of each metric with the scores."""
    table = np.vstack([*values.values(), scores])  # [M + 1, n]
    return dict(zip(values, rank_correlations(table).tolist(), strict=True))
