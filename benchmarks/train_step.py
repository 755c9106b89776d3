"""A training step that reads tokens from the cache, against one that runs the image encoder.

Both sides are processes of LAVIS' environment, started together and timed in turn, with the same
random weights of the published shapes: forward, backward and AdamW on the published loss. Ours
reads reference, positive and negative from a feature cache on disk (fp16, memory-mapped); theirs
encodes the three every step, as the published code does, and is given decoded pixels for nothing.
`equal`: with tokens rounded to fp16 on that side too, the first timed step's loss and every
gradient agree; dropout draws the same on both sides.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import lavis_venv

CASES = ({"name": "blip2-vitL", "batch": 2, "goal": 3.0},)
FULL_CASES = (
    {"name": "blip2-vitL", "batch": 8, "goal": 3.0},
    {"name": "blip2-vitg", "batch": 8, "goal": 10.0},
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
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            side: Side(side, Path(folder), case["name"], case["batch"], count, seed)
            for side, count in steps.items()
        }
        try:
            for side in sides.values():
                side.wait_until_built()
            # Theirs first: it fills the cache and leaves its gradients to be compared.
            results = {name: side.time() for name, side in sides.items()}
        finally:
            for side in sides.values():
                side.end()
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


class Side:
    """A process of LAVIS' environment that builds the model, and steps when it is told to."""

    def __init__(
        self, side: str, folder: Path, name: str, batch: int, steps: int, seed: int
    ) -> None:
        numbers = map(str, (batch, steps, seed))
        self.process = subprocess.Popen(
            [python(), "-m", "benchmarks.stepping", side, str(folder), name, *numbers],
            cwd=lavis_venv.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_built(self) -> None:
        """Return when it has built its model."""
        self._line()

    def time(self) -> dict[str, Any]:
        """Let it step, and return what it measured."""
        self.process.stdin.write("go\n")  # type: ignore[union-attr]
        self.process.stdin.flush()  # type: ignore[union-attr]
        return dict(json.loads(self._line()))

    def end(self) -> None:
        """End the process, whatever it is at."""
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        line: str = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit("a side of the benchmark failed; its message is above")
        return line


def python() -> str:
    """The Python of LAVIS' environment.

    Raises:
        SystemExit: it is not installed.
    """
    path = lavis_venv.folder() / "bin" / "python"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `make bench-setup` first")
    return str(path)
