"""The parts of the ablation that run in processes of their own.

Each process has one thread, so that weights do not depend on the number of cores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from benchmarks.agreement import KNOWING, hsfiq, resampled, resampled_halves, truth, write_knowing
from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.release import read_release
from hsfiq.analysis.statistics.correlation import spearman
from hsfiq.analysis.statistics.preference import preference_rates
from hsfiq.demo.study import IMAGE_FOLDER, database_url
from hsfiq.model import checkpoints
from hsfiq.model import data as datasets
from hsfiq.model.data import draw_dataset, draw_pictures, drawn_size
from hsfiq.model.evaluation.benchmarks import Benchmark, SystemLists
from hsfiq.model.evaluation.drawn import Catalogue, Split, drawn
from hsfiq.model.evaluation.metrics import target_of
from hsfiq.model.evaluation.rankings import rank_with_scorer
from hsfiq.model.recipes import SIZED, Recipe, Strategy, on_drawn, recipe
from hsfiq.model.release_scores import score_release
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.run import run

SPLITS: tuple[Split, ...] = ("val", "test")
RECIPE = "cirqrs-fashioniq"
PICTURES, FEATURES = "pictures", "features"
BESIDE = ("recall@5", *KNOWING)
"""Metrics that need no training; `oracle` is the upper bound."""
CPU = torch.device("cpu")
Start = Literal["nothing", "corpus"]
STARTS: tuple[Start, ...] = get_args(Start)


@dataclass(frozen=True, slots=True)
class Trial:
    """One training.

    Attributes:
        strategy: of the negatives.
        n_neg: the initial size of a negative set; None if the strategy does not use it.
        seed: 0 is the recipe's own.
        limit: approximate number of training triplets.
        start: random weights, or those of the scorer that `corpus` gave from random ones.
    """

    strategy: Strategy
    n_neg: int | None
    seed: int
    limit: int
    epochs: int
    start: Start = "nothing"

    @property
    def is_base(self) -> bool:
        """Whether the others of the same start are compared with this training."""
        return self.strategy == "corpus"

    @property
    def name(self) -> str:
        """The metric name, the same for every seed."""
        name = self.strategy if self.n_neg is None else f"{self.strategy}-{self.n_neg}"
        return name if self.start == "nothing" else f"{name}-after-{self.start}"

    @property
    def recipe(self) -> Recipe:
        """The same recipe for all strategies, except for the negatives and the seed."""
        base = on_drawn(recipe(RECIPE))
        values = {
            "strategy": self.strategy,
            "epochs": str(self.epochs),
            "seed": str(base.seed + self.seed),
        }
        if self.strategy in SIZED:
            values["n_neg"] = str(self.n_neg)
        return base.with_values(values)


@dataclass(frozen=True, slots=True)
class Lists:
    """The ranks of a split's targets.

    Attributes:
        targets: of each query.
        ranks: of each target, 1 being the best; infinite below the end of the list.
    """

    targets: list[str]
    ranks: list[float]


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a trial.

    Attributes:
        curve: the mean validation recall after each epoch; the best epoch's weights are used.
        sizes: the mean size of the negative sets at each definition.
        lists: by split.
    """

    curve: list[float]
    sizes: list[float]
    lists: dict[Split, Lists]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A figure, and its value on each resample."""

    value: float
    resamples: np.ndarray


@dataclass(frozen=True, slots=True)
class Judged:
    """How metrics agree with one study's annotators, resampled by participant.

    Attributes:
        rho: Spearman's, by metric.
        tie_half: pairwise accuracy with ties counted half, by metric.
        n_sets: number of sets scored by annotators.
        n_participants: number of annotators.
    """

    rho: dict[str, Sampled]
    tie_half: dict[str, Sampled]
    n_sets: int
    n_participants: int


def one_thread() -> None:
    """Initialise a worker process."""
    torch.set_num_threads(1)


def draw_catalogue(folder: Path, trial: Trial) -> None:
    """Draw the pictures of a trial's catalogue, including held-out garments."""
    size = drawn_size(trial.limit)
    garments, _ = draw_dataset(trial.recipe.seed, *size)
    draw_pictures(garments, folder / PICTURES)


def simulate(folder: Path, seed: int, split: Split, answers: int) -> None:
    """Simulate a study of a split, on its own catalogue."""
    place = study_folder(folder, seed, split)
    place.mkdir(parents=True)
    command = partial(hsfiq, place, OMP_NUM_THREADS="1")
    command("demo", "--answers", str(answers), "--seed", str(seed), "--split", split,
            "--dir", "study")  # fmt: skip
    url = database_url(place / "study")
    command("export", "--database", url, "--release", "hp", "--out", "hp")
    triplets = truth(seed, split, answers)
    for name in KNOWING:
        write_knowing(place / "hp", triplets, name)


def study_folder(folder: Path, seed: int, split: Split) -> Path:
    """The folder of a study, its release `hp` and the release's scores."""
    return folder / "studies" / f"{split}-{seed}"


def train(folder: Path, trial: Trial) -> Trained:
    """Train, rank the queries of each split, and score the studies of the same seed."""
    settings, cache = trial.recipe, folder / FEATURES
    size = drawn_size(trial.limit)
    data = datasets.drawn(folder / PICTURES, settings.seed, *size, settings.pool)
    out = folder / "runs" / f"{trial.name}-{trial.seed}"
    start = folder / "runs" / f"corpus-{trial.seed}" if trial.start == "corpus" else None
    paths = ScorerPaths(start, cache=cache)
    run(settings, TrainingJob(data, out, paths, Distributed(CPU), Callback()))
    for split in SPLITS:
        score(study_folder(folder, trial.seed, split), out, cache, trial.name)
    catalogue = Catalogue(*draw_dataset(settings.seed, *size))
    paths = ScorerPaths(out, folder / PICTURES, cache=cache)
    progress = checkpoints.read(out / "last.json").about["progress"]
    return Trained(
        curve=[line["val"]["mean"] for line in progress["epochs"]],
        sizes=[line["mean_size"] for line in progress["definitions"]],
        lists={split: ranked(drawn(catalogue, split), paths) for split in SPLITS},
    )


def score(study: Path, scorer: Path, cache: Path, name: str) -> None:
    """Score every set of a study's release, under this name."""
    paths = ScorerPaths(scorer, study / "study" / IMAGE_FOLDER, cache=cache)
    score_release(study / "hp", name, paths, CPU, Callback())


def ranked(benchmark: Benchmark, paths: ScorerPaths) -> Lists:
    """Rank every query's candidates."""
    answers = rank_with_scorer(benchmark, paths, CPU, Callback()).answers
    return target_ranks(benchmark, answers)


def target_ranks(benchmark: Benchmark, answers: dict[str, SystemLists]) -> Lists:
    """Find each target in its query's list."""
    targets, ranks = [], []
    for part in benchmark.parts:
        for query in part.queries:
            target, images = target_of(query), answers[part.name].lists[query.query_id]
            targets.append(target)
            ranks.append(images.index(target) + 1 if target in images else math.inf)
    return Lists(targets, ranks)


def judge(folder: Path, seed: int, split: Split, names: Sequence[str]) -> Judged:
    """Measure how metrics agree with a study's answers, on the same resampled participants."""
    release = study_folder(folder, seed, split) / "hp"
    known = [release.with_name("hp.known") / f"{name}.jsonl" for name in KNOWING]
    data = read_release(release, known)
    metrics = {name: parse_metric(name).values(data) for name in (*names, *BESIDE)}
    values = {name: metric.to_numpy() for name, metric in metrics.items()}
    rhos = resampled(values, data.sets, np.random.default_rng(seed))
    halves = resampled_halves(values, data, np.random.default_rng(seed))
    return Judged(
        rho={
            name: Sampled(spearman(data.sets, metric).rho, rhos[name])
            for name, metric in metrics.items()
        },
        tie_half={
            name: Sampled(preference_rates(data.preferences, metric).tie_half.rate, halves[name])
            for name, metric in metrics.items()
        },
        n_sets=len(data.sets),
        n_participants=data.n_participants,
    )
