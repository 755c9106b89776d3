"""The loop: a scorer retrained on yesterday's answers, held against answers that it has not seen.

A scorer is trained from nothing on triplets by `hsfiq train`. Simulated annotators answer a study;
its release holds out a part of the triplets. `hsfiq train preference` learns from the answers to
the others, and both scorers, and `recall@5`, are correlated with the scores given to what is held
out. The same annotators answer both parts: what is new is the triplets. Intervals are 95%
percentile ones from resampled participants, the same for all three, so that the difference is
paired; with --full, of the mean over seeds, and for several numbers of answers; then more is asked,
once what the scorer is unsure of and once at random (`benchmarks.loop_asking`). The annotators are
simulated: nothing here says what people would answer.
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
from benchmarks.held_out import Held, agreement_of, difference_of, measured
from benchmarks.loop_asking import asked, comparison
from hsfiq.demo.folder import IMAGE_FOLDER, database_url
from hsfiq.model.data.datasets import CATALOGUE, read_training_data
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.preference.retrain import retrain
from hsfiq.model.preference.settings import Settings
from hsfiq.model.release_scores.score_release import score_release
from hsfiq.model.scorer.loading import load_scorer
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from hsfiq.releases.splits import verify_no_leak

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
        ask: so many more pairs are asked after the first size, by information and at random.
    """

    seeds: int
    answers: int
    test_share: float
    sizes: tuple[int, ...]
    limit: int
    training: tuple[str, ...]
    values: Mapping[str, str]
    ask: int = 0


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
    ask=500,
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
        {
            "answers": size,
            "seeds": plan.seeds,
            **figures([it.learned[size] for it in found]),
        }
        for size in plan.sizes
    ]
    last, in_last = cases[-1], [it.learned[plan.sizes[-1]] for it in found]
    asked = [it.asked for it in found if it.asked is not None]
    return {
        "name": "loop-learns",
        "simulated": True,
        "answers": last["answers"],
        "n_sets": sum(it.n_sets for it in in_last),
        "n_participants": sum(it.n_participants for it in in_last),
        **{key: last[key] for key in (*METRICS, "difference")},
        "seconds": time.perf_counter() - started,
        "cases": cases,
        **({"asking": comparison(asked, plan.sizes[0], plan.ask)} if asked else {}),
    }


def figures(found: Sequence[Held]) -> dict[str, Any]:
    """Means over the seeds, each with its interval, and what retraining adds."""
    return {
        **{name: agreement_of(found, name) for name in METRICS},
        "difference": difference_of(found, "after", "before"),
    }


@dataclass(frozen=True)
class Loop:
    """What one seed's loop has shown.

    Attributes:
        learned: by the number of answers learned from.
        asked: after more answers, asked for in two ways; None where the plan asks for no more.
    """

    learned: dict[int, Held]
    asked: Held | None


def loop(seed: int, plan: Plan) -> Loop:
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
        triplets = read_training_data(recipe, None, folder / CATALOGUE, plan.limit)
        room = Room(folder, plan, triplets)
        learned = {size: room.learned(release, size) for size in plan.sizes}
        return Loop(learned, room.asked(command, release, seed) if plan.ask else None)


def make_release(folder: Path, command: partial[str], seed: int, plan: Plan) -> Path:
    """Simulate a study and release it with a part of its triplets held out."""
    release = folder / "all"
    command("demo", "--answers", str(plan.answers), "--seed", str(seed), "--dir", "study")
    command(
        "export", "--database", database_url(folder / "study"), "--release", "hp",
        "--out", str(release), "--split", "triplet", "--split-seed", str(seed),
        "--test-share", str(plan.test_share),
    )  # fmt: skip
    return release


@dataclass(frozen=True)
class Room:
    """A loop's folder, and what its retrainings share.

    Attributes:
        folder: with the scorer of triplets in `init`, and the study in `study`.
        plan: what is run.
        triplets: mixed in.
    """

    folder: Path
    plan: Plan
    triplets: TrainingData

    def learned(self, release: Path, size: int) -> Held:
        """Retrain on the first answers of the training part, and measure what is held out."""
        part = first_answers(release, self.part(size), size)
        init, out = self.folder / "init", self.folder / f"out-{size}"
        self.retrain(part, init, out)
        self.score(part, init, "before")
        self.score(part, out, "after")
        return measured(part, METRICS)

    def asked(self, command: partial[str], whole: Path, seed: int) -> Held:
        """Ask more after the first answers, and measure what is held out."""
        first, n = self.part(self.plan.sizes[0]), self.plan.ask
        scorer = self.folder / f"out-{self.plan.sizes[0]}"

        def retrain(release: Path, name: str) -> None:
            out = self.folder / f"out-{name}"
            self.retrain(release, scorer, out)
            self.score(first, out, name)

        return asked(self.folder, command, whole, first, scorer, n, seed, retrain)

    def part(self, size: int) -> Path:
        """Where the release lies that has so many answers to train with."""
        return self.folder / f"first-{size}"

    def retrain(self, release: Path, init: Path, out: Path) -> None:
        """Retrain a scorer, as `hsfiq train preference` does."""
        settings = Settings.for_encoder("tiny").with_values(self.plan.values)
        retrain(release, out, self.paths(init), settings, self.triplets, CPU, Callback())

    def score(self, release: Path, checkpoint: Path, name: str) -> None:
        """Score a release, as `hsfiq score` does."""
        score_release(release, name, self.paths(checkpoint), CPU, Callback())

    def paths(self, checkpoint: Path) -> ScorerPaths:
        """The paths of a scorer of this loop."""
        return ScorerPaths(checkpoint, self.images, cache=self.cache)

    @property
    def cache(self) -> Path:
        """The feature cache, the commands' as well."""
        return self.folder / "features"

    @property
    def images(self) -> Path:
        """The study's."""
        return self.folder / "study" / IMAGE_FOLDER


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
