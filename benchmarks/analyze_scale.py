"""`hsfiq analyze --details` on large releases: CPU seconds and peak memory of the command.

A release is drawn from the seed: each participant answers 50 questions about queries of their own,
two sets each, of four systems; three metrics are compared, recall@5 and two scores files of many
values. Without `--full` it has 30,000 questions, with it 300,000 too. CPU seconds are those of the
command's process, so other load on the machine does not count.

The resampled correlations are most of the work. The second part times them on a release of 3,000
questions, where the obvious method is possible: each resample written out row by row and given to
`scipy.stats.spearmanr`. Ours must give the same rhos.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.bootstrap import reference_rhos
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.resampling.spearman import resampled_spearman

PER_PARTICIPANT, PER_FORM, K = 50, 25, 5
IMAGES = 60_000
SIZE, FULL_SIZE, TWIN_SIZE = 30_000, 300_000, 3000
SYSTEMS = np.array(["system_a", "system_b", "system_c", "system_d"], dtype=object)
CATEGORIES = np.array(["dress", "shirt", "toptee"], dtype=object)
METRICS = ("recall@5", "good", "poor")
NOISE = {"good": 1.0, "poor": 3.0}
GOALS = {SIZE: (10.0, 1000), FULL_SIZE: (60.0, 1000)}
"""By the number of questions: CPU seconds and megabytes."""
TWIN_RESAMPLES = 200
CLOSE = 1e-12


def run(seed: int, full: bool) -> dict[str, Any]:
    """Measure the command at each size; the ratio is that of the resampled correlations."""
    return measure(seed, (SIZE, FULL_SIZE) if full else (SIZE,), TWIN_SIZE, TWIN_RESAMPLES)


def measure(seed: int, sizes: tuple[int, ...], twin_size: int, resamples: int) -> dict[str, Any]:
    """Measure the command at these sizes and the correlations at `twin_size` questions."""
    cases = [measure_command(seed, size) for size in sizes]
    return {
        "name": "analyze-scale",
        "metrics": len(METRICS),
        **compare_with_twin(seed, twin_size, resamples),
        "within_goals": all(case["within_goal"] for case in cases),
        "cases": cases,
    }


def measure_command(seed: int, n_questions: int) -> dict[str, Any]:
    """CPU seconds and peak memory of one run of the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = write_release(np.random.default_rng(seed), n_questions, Path(name) / "hp")
        arguments = ["analyze", str(folder), "--details", "--json"]
        for metric in METRICS:
            arguments += ["--metric", metric]
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "hsfiq"), *arguments], stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"hsfiq analyze exited with {process.returncode}")
    seconds, peak_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    goal_seconds, goal_mb = GOALS.get(n_questions, (float("inf"), float("inf")))
    return {
        "questions": n_questions,
        "participants": n_questions // PER_PARTICIPANT,
        "cpu_seconds": round(seconds, 1),
        "peak_mb": round(peak_mb),
        "within_goal": seconds <= goal_seconds and peak_mb <= goal_mb,
    }


def compare_with_twin(seed: int, n_questions: int, resamples: int) -> dict[str, Any]:
    """Time the resampled correlations of one metric against the same resamples written out."""
    tables = draw(np.random.default_rng(seed), n_questions)
    sets, values = tables["sets"], tables["good"]["score"].to_numpy()
    study = (values, sets["score"].to_numpy(dtype=np.float64))
    draws = Bootstrap.of_rows(sets, n_resamples=resamples, seed=seed)
    start = time.process_time()
    ours = resampled_spearman(draws, sets, *study)
    middle = time.process_time()
    theirs = np.array(reference_rhos(draws, sets, study))
    end = time.process_time()
    return {
        "ratio": round((end - middle) / (middle - start), 1),
        "ours": round(middle - start, 3),
        "theirs": round(end - middle, 3),
        "unit": "CPU s",
        "equal": bool(np.abs(ours[: len(theirs)] - theirs).max() <= CLOSE),
        "twin_questions": n_questions,
        "twin_resamples": len(theirs),
    }


def draw(rng: np.random.Generator, n_questions: int) -> dict[str, pd.DataFrame]:
    """Draw a release's tables and two scores files, by the names of their files."""
    number = np.arange(n_questions)
    person, place = number // PER_PARTICIPANT, number % PER_PARTICIPANT
    people = pd.Series(person.astype(str)).radd("p")
    forms = pd.Series((place // PER_FORM + 1).astype(str)).radd("form_")
    questions = people + "." + forms + "." + pd.Series((place % PER_FORM).astype(str))
    queries = pd.Series(number.astype(str)).radd("triplet.")
    of_sides = draw_sides(rng, n_questions, person)
    systems, quality, scores = of_sides["systems"], of_sides["quality"], of_sides["scores"]
    set_ids = np.stack([(questions + end).to_numpy(object) for end in (".1", ".2")], axis=1)
    images = image_names(rng, 2 * n_questions)
    latent = quality[:, 0] - quality[:, 1] + rng.normal(size=n_questions)
    targets = np.where(
        (quality[:, 0] > 0.5) | (rng.random(n_questions) < 0.1),
        images[::2, 2],
        pd.Series(rng.integers(IMAGES, size=n_questions).astype(str)).radd("other_"),
    )
    both = np.repeat(number, 2)
    preferences = pd.DataFrame(
        {
            "question_id": questions,
            "participant_id": people,
            "form": forms,
            "place": place % PER_FORM,
            "query_id": queries,
            "set_1": set_ids[:, 0],
            "set_2": set_ids[:, 1],
            "system_1": systems[:, 0],
            "system_2": systems[:, 1],
            "score_1": scores[:, 0],
            "score_2": scores[:, 1],
            "preferred": np.where(latent > 0, 1, 2),
            "irrelevant": rng.random(n_questions) < 0.1,
            "active_seconds": np.exp(rng.normal(3.0, 0.7, size=n_questions)),
            "failed_checks": (rng.random(n_questions // PER_FORM + 1) < 0.05)[number // PER_FORM],
        }
    ).astype({"failed_checks": "int64"})
    sets = pd.DataFrame(
        {
            "set_id": set_ids.ravel(),
            "question_id": questions.to_numpy(object)[both],
            "side": np.tile([1, 2], n_questions),
            "participant_id": people.to_numpy(object)[both],
            "query_id": queries.to_numpy(object)[both],
            "system": systems.ravel(),
            "image_ids": list(images),
            "score": scores.ravel(),
        }
    )
    tables = {
        "preferences": preferences,
        "sets": sets,
        "queries": pd.DataFrame(
            {
                "query_id": queries,
                "triplet_id": queries,
                "target_id": targets,
                "category": CATEGORIES[person % len(CATEGORIES)],
            }
        ),
    }
    for name, noise in NOISE.items():
        values = quality.ravel() + noise * rng.normal(size=2 * n_questions)
        tables[name] = pd.DataFrame({"set_id": set_ids.ravel(), "score": values})
    return tables


def draw_sides(
    rng: np.random.Generator, n_questions: int, person: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """The systems, the quality and the human scores of both sets of each question, (n, 2)."""
    first = rng.integers(len(SYSTEMS), size=n_questions)
    second = (first + rng.integers(1, len(SYSTEMS), size=n_questions)) % len(SYSTEMS)
    numbers = np.stack([first, second], axis=1)
    quality = 0.3 * numbers + rng.normal(size=numbers.shape)
    offsets = rng.normal(0, 0.4, size=person[-1] + 1)[person]
    latent = 2.5 + offsets[:, None] + 0.5 * quality + rng.normal(size=numbers.shape)
    scores = np.clip(np.rint(latent), 1, 5).astype(np.int64)
    return {"systems": SYSTEMS[numbers], "quality": quality, "scores": scores}


def image_names(rng: np.random.Generator, n_sets: int) -> NDArray[np.object_]:
    """The names of five images for each set, (n_sets, 5)."""
    names = np.array([f"image_{number:06d}" for number in range(IMAGES)], dtype=object)
    return names[rng.integers(IMAGES, size=(n_sets, K))]


def write_release(rng: np.random.Generator, n_questions: int, folder: Path) -> Path:
    """Write a drawn release, with its scores files beside it."""
    scores = folder.with_name(f"{folder.name}.scores")
    folder.mkdir()
    scores.mkdir()
    digests = {}
    for name, table in draw(rng, n_questions).items():
        path = (scores if name in NOISE else folder) / f"{name}.parquet"
        table.to_parquet(path, index=False)
        if name not in NOISE:
            digests[path.name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest = {
        "name": folder.name,
        "version": "1.0.0",
        "kind": "hp",
        "study": "analyze-scale",
        "simulated": True,
        "files": digests,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
