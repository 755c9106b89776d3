"""The whole pipeline on the drawn catalogue: train, simulate studies, score, analyze.

`hsfiq train` trains a scorer from scratch. Simulated annotators answer two studies on triplets not
used in training: of split `val`, and of `test`, whose combinations of colour and pattern do not
occur in training. The scorer is compared with `recall@5`; with the oracle, which uses the
attributes and the annotators' utility; and with two metrics that use one part of this utility:
`text-only`, how well an image matches the text, and `image-only`, how similar it is to the
reference. Each Spearman
correlation, its difference to that of `recall@5` and each pairwise accuracy with ties counted half
has a 95% percentile interval from resampled participants. The annotators are simulated: nothing
here predicts what people would answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from hsfiq.analysis.data.metrics import parse_metric
from hsfiq.analysis.data.release import Release, read_release
from hsfiq.demo.study import database_url, draw_catalogue, draw_queries, queries_per_category
from hsfiq.drawn import DrawnTriplet, Garment, garment_of, utility
from hsfiq.drawn.triplets import Split
from hsfiq.drawn.utility import reference_similarity, text_utility
from hsfiq.releases.folder import read_sets
from hsfiq.study.config import Design

ANSWERS, FULL_ANSWERS = 400, 6000
SPLITS: tuple[Split, ...] = ("val", "test")
RESAMPLES = 1000
KNOWING: dict[str, Callable[[DrawnTriplet, Garment], float]] = {
    "oracle": utility,
    "text-only": text_utility,
    "image-only": reference_similarity,
}
QUICK = ("--limit", "600", "--set", "epochs=5")
"""Without --full: a shorter training, to end soon."""


def run(seed: int, full: bool) -> dict[str, Any]:
    """Train once, and compare the scorer with two studies."""
    if full:
        return measure(seed, FULL_ANSWERS, SPLITS, training=())
    return measure(seed, ANSWERS, SPLITS, training=QUICK)


def measure(
    seed: int, answers: int, splits: Sequence[Split], training: Sequence[str]
) -> dict[str, Any]:
    """Train with these options, and compare the scorer with a study of each split."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        trained = hsfiq(
            folder, "train", "cirqrs-fashioniq", "--data", "drawn", "--out", "run", "--json",
            *training,
        )  # fmt: skip
        seconds = time.perf_counter() - started

        def of_split(number: int) -> list[dict[str, Any]]:
            return agreement(folder, seed + 1 + number, splits[number], answers)

        # Nothing is timed here, so the studies run concurrently.
        with ThreadPoolExecutor() as pool:
            cases = [case for part in pool.map(of_split, range(len(splits))) for case in part]
    return {
        "name": "agreement",
        "simulated": True,
        "train_s": seconds,
        "val": json.loads(trained)["val"],
        "answers": answers,
        "cases": cases,
    }


def agreement(parent: Path, seed: int, split: Split, answers: int) -> list[dict[str, Any]]:
    """Simulate a study of one split, score it in every way, and correlate.

    Args:
        parent: holds the trained scorer in `run`, and takes a folder for the study.
        seed: of the study.
        split: whose triplets are used.
        answers: to simulate.
    """
    folder = parent / split
    folder.mkdir()
    # One thread: the other study's commands run beside these.
    command = partial(hsfiq, folder, OMP_NUM_THREADS="1")
    study, release = folder / "study", folder / "hp"
    command("demo", "--answers", str(answers), "--seed", str(seed), "--split", split,
            "--dir", str(study))  # fmt: skip
    url = database_url(study)
    command("export", "--database", url, "--release", "hp", "--out", str(release))
    command("score", str(release), "--checkpoint", str(parent / "run"))
    files = [write_knowing(release, truth(seed, split, answers), name) for name in KNOWING]
    metrics = ("recall@5", "cirqrs", *KNOWING)
    result = command(
        "analyze", str(release), "--json",
        *(word for name in metrics for word in ("--metric", name)),
        *(word for file in files for word in ("--scores", str(file))),
    )  # fmt: skip
    metrics = json.loads(result)["metrics"]
    data = read_release(release, files)
    values = {name: parse_metric(name).values(data).to_numpy() for name in metrics}
    rhos = resampled(values, data.sets, np.random.default_rng(seed))
    halves = resampled_halves(values, data, np.random.default_rng(seed))
    return [
        {
            "split": split,
            "metric": name,
            "rho": metrics[name]["spearman"]["rho"],
            "ci": interval(rhos[name]),
            "above_recall_ci": interval(rhos[name] - rhos["recall@5"]),
            "tie_half": metrics[name]["preference_rate"]["tie_half"]["rate"],
            "tie_half_ci": interval(halves[name]),
            "n_sets": metrics[name]["spearman"]["n"],
            "n_participants": metrics[name]["spearman"]["n_clusters"],
        }
        for name in metrics
    ]


def resampled(
    values: dict[str, np.ndarray], sets: pd.DataFrame, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return each metric's correlation with the scores, on the same resampled participants."""
    people = sets["participant_id"].to_numpy()
    rows_of = [np.flatnonzero(people == person) for person in np.unique(people)]
    scores = sets["score"].to_numpy(dtype=float)
    draws = [rng.integers(len(rows_of), size=len(rows_of)) for _ in range(RESAMPLES)]
    chosen = [np.concatenate([rows_of[person] for person in draw]) for draw in draws]
    table = np.vstack([*values.values(), scores])  # [M + 1, n]
    rhos = np.array([rank_correlations(table[:, rows]) for rows in chosen])  # [R, M]
    return dict(zip(values, rhos.T, strict=True))


def rank_correlations(table: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row but the last with the last: [M + 1, n] -> [M]."""
    ranks = rankdata(table, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(ranks, axis=1)
    rhos: np.ndarray = ranks[:-1] @ ranks[-1] / (lengths[:-1] * lengths[-1])
    return rhos


def resampled_halves(
    values: dict[str, np.ndarray], data: Release, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return each metric's pairwise accuracy, ties counted half, on resampled participants."""
    preferences = data.preferences
    row_of = {set_id: row for row, set_id in enumerate(data.sets["set_id"])}
    sides = [[row_of[set_id] for set_id in preferences[side]] for side in ("set_1", "set_2")]
    answers = np.where(preferences["preferred"] == 1, 1, -1)
    right = {
        name: (1 + np.sign(value[sides[0]] - value[sides[1]]) * answers) / 2
        for name, value in values.items()
    }
    people = preferences["participant_id"].to_numpy()
    rows_of = [np.flatnonzero(people == person) for person in np.unique(people)]
    draws = [rng.integers(len(rows_of), size=len(rows_of)) for _ in range(RESAMPLES)]
    chosen = [np.concatenate([rows_of[person] for person in draw]) for draw in draws]
    return {
        name: np.array([values[rows].mean() for rows in chosen]) for name, values in right.items()
    }


def interval(values: np.ndarray) -> list[float]:
    """Return the middle 95%."""
    low, high = np.quantile(values, (0.025, 0.975))
    return [float(low), float(high)]


def truth(seed: int, split: Split, answers: int) -> dict[str, DrawnTriplet]:
    """Return the triplet of each query in the study of `hsfiq demo --answers`."""
    design = Design(seed=seed)
    size = design.questions_per_form * design.forms_per_participant
    per_category = queries_per_category(design, ceil(answers / size))
    queries = draw_queries(seed, draw_catalogue(seed, per_category), per_category, split)
    return {query.query_id: query.triplet for query in queries}


def write_knowing(release: Path, triplets: dict[str, DrawnTriplet], name: str) -> Path:
    """Score each set by its attributes; write a scores file of the metric's name."""
    path = release.with_name(release.name + ".known") / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    worth = KNOWING[name]
    with path.open("w", encoding="utf-8") as file:
        for retrieved in read_sets(release):
            triplet = triplets[retrieved.query_id]
            score = fmean(worth(triplet, garment_of(image)) for image in retrieved.images)
            file.write(json.dumps({"set_id": retrieved.set_id, "score": score}) + "\n")
    return path


def hsfiq(folder: Path, *arguments: str, **variables: str) -> str:
    """Run a command in the folder, which keeps its feature cache; return its output."""
    result = subprocess.run(
        [sys.executable, "-m", "hsfiq", *arguments],
        cwd=folder,
        env={**os.environ, "HSFIQ_CACHE": str(folder / "features"), **variables},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return result.stdout
