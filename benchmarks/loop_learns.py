"""The loop: a scorer before and after retraining on answers, compared on held-out answers.

`hsfiq train` trains a scorer from scratch on triplets. Simulated annotators answer a study, whose
release holds out some of the triplets. `hsfiq train preference` retrains the scorer on the other
answers. Both scorers and `recall@5` are correlated with the scores of the held-out sets. The same
annotators answer both parts; only the triplets are new. The 95% percentile intervals come from
resampled participants, the same for all three metrics, so that the difference is paired. With
--full, the figures are means over seeds, for several numbers of answers; then follow-up studies are
compared, chosen by information and at random (`benchmarks.information_vs_random`). The annotators
are simulated: nothing here predicts what people would answer.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.agreement import hsfiq
from benchmarks.held_out import HeldOut, mean_agreement, mean_difference, measure_held_out
from benchmarks.information_vs_random import compare_follow_ups, summarize
from hsfiq.demo.study import IMAGE_FOLDER, database_url
from hsfiq.model.data import CATALOGUE, TrainingData, read_training_data
from hsfiq.model.preference.retrain import retrain
from hsfiq.model.preference.training import Settings
from hsfiq.model.release_scores import score_release
from hsfiq.model.runtime import Distributed
from hsfiq.model.scorer.job import Callback
from hsfiq.model.scorer.loading import ScorerPaths, load_scorer
from hsfiq.releases.splits import verify_no_leak

METRICS = ("recall@5", "before", "after")
CPU = torch.device("cpu")
MIXED = {"mix": "3", "folds": "0"}
"""Without triplets mixed in, the scorer finds its targets less well than before. Folds would only
change the answer model, which no figure here depends on but the choice by information."""


@dataclass(frozen=True)
class Plan:
    """The sizes and options of a run.

    Attributes:
        seeds: how many; each has its own scorer, study and annotators.
        answers: of each study, including held-out ones.
        test_share: of the triplets.
        sizes: numbers of answers to train on; the result reports the last.
        limit: about how many triplets the first training uses; retraining mixes them in.
        training: options of `hsfiq train` for the first scorer.
        values: settings of the recipe `preference` that differ from its defaults.
        follow_up: pairs of each follow-up study, made after the first size; 0 for none.
    """

    seeds: int
    answers: int
    test_share: float
    sizes: tuple[int, ...]
    limit: int
    training: tuple[str, ...]
    values: Mapping[str, str]
    follow_up: int = 0


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
    follow_up=500,
)


def run(seed: int, full: bool) -> dict[str, Any]:
    """Measure how much retraining gains."""
    torch.set_num_threads(1)  # more threads do not help with such small tensors
    return measure(seed, FULL if full else QUICK)


def measure(seed: int, plan: Plan) -> dict[str, Any]:
    """Run the loop for each seed, and average."""
    started = time.perf_counter()
    loops = [run_loop(number, plan) for number in range(seed, seed + plan.seeds)]
    cases = [
        {
            "answers": size,
            "seeds": plan.seeds,
            **figures([loop.retrained[size] for loop in loops]),
        }
        for size in plan.sizes
    ]
    last, in_last = cases[-1], [loop.retrained[plan.sizes[-1]] for loop in loops]
    follow_ups = [loop.follow_ups for loop in loops if loop.follow_ups is not None]
    return {
        "name": "loop-learns",
        "simulated": True,
        "answers": last["answers"],
        "n_sets": sum(held_out.n_sets for held_out in in_last),
        "n_participants": sum(held_out.n_participants for held_out in in_last),
        **{key: last[key] for key in (*METRICS, "difference")},
        "seconds": time.perf_counter() - started,
        "cases": cases,
        **({"asking": summarize(follow_ups, plan.sizes[0], plan.follow_up)} if follow_ups else {}),
    }


def figures(by_seed: Sequence[HeldOut]) -> dict[str, Any]:
    """Return the means over seeds and the difference that retraining makes, with intervals."""
    return {
        **{name: mean_agreement(by_seed, name) for name in METRICS},
        "difference": mean_difference(by_seed, "after", "before"),
    }


@dataclass(frozen=True)
class Loop:
    """The agreement measured for one seed.

    Attributes:
        retrained: by the number of answers trained on.
        follow_ups: after the two follow-up studies; None if the plan has none.
    """

    retrained: dict[int, HeldOut]
    follow_ups: HeldOut | None


def run_loop(seed: int, plan: Plan) -> Loop:
    """Train, simulate, release, retrain on each number of answers, and measure."""
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
        triplets = read_training_data(recipe, None, folder / CATALOGUE, plan.limit)
        workspace = Workspace(folder, plan, triplets)
        retrained = {size: workspace.measure_retrained(release, size) for size in plan.sizes}
        if not plan.follow_up:
            return Loop(retrained, None)
        return Loop(retrained, workspace.measure_follow_ups(command, release, seed))


def make_release(folder: Path, command: partial[str], seed: int, plan: Plan) -> Path:
    """Simulate a study and export it with some of its triplets held out."""
    release = folder / "all"
    command("demo", "--answers", str(plan.answers), "--seed", str(seed), "--dir", "study")
    command(
        "export", "--database", database_url(folder / "study"), "--release", "hp",
        "--out", str(release), "--split", "triplet", "--split-seed", str(seed),
        "--test-share", str(plan.test_share),
    )  # fmt: skip
    return release


@dataclass(frozen=True)
class Workspace:
    """A loop's folder, and the inputs of its retrainings.

    Attributes:
        folder: with the first scorer in `init`, and the study in `study`.
        plan: sizes and options.
        triplets: mixed in.
    """

    folder: Path
    plan: Plan
    triplets: TrainingData

    def measure_retrained(self, release: Path, size: int) -> HeldOut:
        """Retrain on the first answers of the training part; measure on the held-out part."""
        part = first_answers(release, self.part(size), size)
        init, out = self.folder / "init", self.folder / f"out-{size}"
        self.retrain(part, init, out)
        self.score(part, init, "before")
        self.score(part, out, "after")
        return measure_held_out(part, METRICS)

    def measure_follow_ups(self, command: partial[str], whole_release: Path, seed: int) -> HeldOut:
        """Retrain again on each follow-up study's answers; measure on the held-out part."""
        first, n = self.part(self.plan.sizes[0]), self.plan.follow_up
        scorer = self.folder / f"out-{self.plan.sizes[0]}"

        def retrain(release: Path, name: str) -> None:
            out = self.folder / f"out-{name}"
            self.retrain(release, scorer, out)
            self.score(first, out, name)

        return compare_follow_ups(
            self.folder, command, whole_release, first, scorer, n, seed, retrain
        )

    def part(self, size: int) -> Path:
        """Return the folder of the release with this many answers to train on."""
        return self.folder / f"first-{size}"

    def retrain(self, release: Path, init: Path, out: Path) -> None:
        """Retrain a scorer as `hsfiq train preference` does."""
        settings = Settings.for_encoder("tiny").with_values(self.plan.values)
        retrain(
            release, out, self.paths(init), settings, self.triplets, Distributed(CPU), Callback()
        )

    def score(self, release: Path, checkpoint: Path, name: str) -> None:
        """Score a release as `hsfiq score` does."""
        score_release(release, name, self.paths(checkpoint), CPU, Callback())

    def paths(self, checkpoint: Path) -> ScorerPaths:
        """Return the paths of a scorer of this loop."""
        return ScorerPaths(checkpoint, self.images, cache=self.cache)

    @property
    def cache(self) -> Path:
        """The feature cache, shared with the commands."""
        return self.folder / "features"

    @property
    def images(self) -> Path:
        """The study's images."""
        return self.folder / "study" / IMAGE_FOLDER


def first_answers(release: Path, folder: Path, n: int) -> Path:
    """Copy the release; only the first n training questions stay in its training part."""
    shutil.copytree(release, folder)
    parts = verify_no_leak(folder)
    kept = [question for question, part in parts.items() if part == "train"][:n]
    used = set(kept)
    rows = [
        {"question_id": name, "part": "unused" if part == "train" and name not in used else part}
        for name, part in parts.items()
    ]
    path = folder / "splits.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
    return folder
