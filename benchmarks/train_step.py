"""A training step that reads tokens from the cache, compared with one that runs the image encoder.

Both sides are processes of LAVIS' environment, timed in turn, with the same random initial
weights of the published shapes: forward, backward and AdamW on the published loss. Ours reads
reference, positive and negative from a feature cache on disk (fp16, memory-mapped); theirs encodes
the three every step, as the published code does, with decoding of images not timed. `equal`:
with tokens rounded to fp16 on that side too, the first timed step's loss and its gradient agree
but for rounding; dropout draws the same on both sides.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any

from benchmarks import lavis_venv

CASES = ({"name": "blip2-vitL", "batch": 2, "goal": 4.0},)
FULL_CASES = (
    {"name": "blip2-vitL", "batch": 8, "goal": 4.0},
    {"name": "blip2-vitg", "batch": 8, "goal": 12.0},
)
STEPS = {"theirs": 1, "ours": 2}
FULL_STEPS = {"theirs": 2, "ours": 6}


def run(seed: int, full: bool) -> dict[str, Any]:
    """Time both sides of each case; the ratio is that of the ViT-L."""
    steps = FULL_STEPS if full else STEPS
    cases = [measure(case, steps, seed) for case in (FULL_CASES if full else CASES)]
    return {
        "name": "train-step",
        "ratio": cases[0]["ratio"],
        "ours": cases[0]["ours_s"],
        "theirs": cases[0]["theirs_s"],
        "unit": "s, the best of the steps",
        "equal": all(case["equal"] for case in cases),
        "cases": cases,
    }


def measure(case: dict[str, Any], steps: dict[str, int], seed: int) -> dict[str, Any]:
    """Time one case on both sides."""
    results = step(case["name"], case["batch"], steps, seed)
    best = {name: min(result["seconds"]) for name, result in results.items()}
    return {
        "case": case["name"],
        "batch": case["batch"],
        "ratio": round(best["theirs"] / best["ours"], 2),
        "goal": case["goal"],
        **{f"{name}_s": round(best[name], 3) for name in results},
        **{f"{name}_images_per_s": round(3 * case["batch"] / best[name], 2) for name in results},
        **{f"{name}_peak_mb": result["peak_mb"] for name, result in results.items()},
        "equal": results["ours"]["equal"],
        "gradient_difference": results["ours"]["gradient_difference"],
    }


def step(name: str, batch: int, steps: dict[str, int], seed: int) -> dict[str, Any]:
    """Let `benchmarks.stepping` step in LAVIS' environment; what each side measured.

    Raises:
        SystemExit: the environment is not installed, or a side failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        numbers = map(str, (batch, seed, steps["theirs"], steps["ours"]))
        process = subprocess.run(
            [python(), "-m", "benchmarks.stepping", folder, name, *numbers],
            cwd=lavis_venv.ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    if process.returncode:
        raise SystemExit("a side of the benchmark failed; its message is above")
    return dict(json.loads(process.stdout))


def python() -> str:
    """The Python of LAVIS' environment.

    Raises:
        SystemExit: it is not installed.
    """
    path = lavis_venv.folder() / "bin" / "python"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `make bench-setup` first")
    return str(path)
