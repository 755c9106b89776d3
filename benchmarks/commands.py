"""The time and peak memory of the commands.

The file is the published one's size and layout (40 participants x 2 x 25 = 2,000 questions),
drawn at random; with `--full` all 61 participants. Every command runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

PARTICIPANTS, ALL_PARTICIPANTS = 40, 61
FORMS, QUESTIONS, K = 2, 25, 5
IMAGES = 2800
GOALS = {"--help": 0.3, "import": 5.0, "export": 3.0}


def run(seed: int, full: bool) -> dict[str, Any]:
    """Time each command (the best of three, help of five) and compare with the goals."""
    participants = ALL_PARTICIPANTS if full else PARTICIPANTS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hpfiq.json").write_text(json.dumps(published(Random(seed), participants)))
        cases = [
            measure(folder, "--help", ["--help"], times=5),
            measure(folder, "import", ["import", "hpfiq", "hpfiq.json"], fresh=["hsfiq.db"]),
            measure(folder, "export", ["export", "--release", "hp", "--out", "hp"], fresh=["hp"]),
            measure(folder, "analyze", ["analyze", "hp", "--metric", "recall@5"]),
        ]
    return {
        "name": "commands",
        "unit": "s",
        "questions": participants * FORMS * QUESTIONS,
        "within_goals": all(case["seconds"] <= case["goal"] for case in cases if case["goal"]),
        "cases": cases,
    }


def measure(
    folder: Path, name: str, arguments: list[str], *, times: int = 3, fresh: list[str] | None = None
) -> dict[str, Any]:
    """The best time and the peak memory of a command; `fresh` is removed before each run."""
    seconds, peak = [], 0
    for _ in range(times):
        for path in fresh or []:
            subprocess.run(
                ["rm", "-rf", path, f"{path}-wal", f"{path}-shm"], cwd=folder, check=True
            )
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "hsfiq"), *arguments],
            cwd=folder, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - start)
        if status != 0:
            raise SystemExit(f"hsfiq {' '.join(arguments)} failed")
        peak = max(peak, usage.ru_maxrss)
    return {
        "command": name,
        "seconds": round(min(seconds), 3),
        "goal": GOALS.get(name),
        "peak_mb": round(peak / 1024, 1),
    }


def published(rng: Random, participants: int) -> dict[str, Any]:
    """A random file of the published layout."""
    return {
        f"user_{user}": {
            f"question_set_{form}": question_set(rng, rng.choice(("shirt", "toptee")))
            for form in range(1, FORMS + 1)
        }
        for user in range(1, participants + 1)
    }


def question_set(rng: Random, category: str) -> dict[str, list[Any]]:
    """One form of random questions."""

    def images(n: int) -> list[str]:
        return [f"/-/image_data/{category}/B{i:08}.jpg" for i in rng.sample(range(IMAGES), n)]

    def retrieved() -> list[dict[str, Any]]:
        return [
            {"img_path": images(K), "user_score": str(rng.randint(1, 5))} for _ in range(QUESTIONS)
        ]

    return {
        "ref_img_paths": images(QUESTIONS),
        "targ_img_paths": images(QUESTIONS),
        "sentences": [f"is more {rng.random():.3f}  and is less plain" for _ in range(QUESTIONS)],
        "retrieved_set1": retrieved(),
        "retrieved_set2": retrieved(),
        "preferred set": [rng.choice(("1", "2")) for _ in range(QUESTIONS)],
    }
