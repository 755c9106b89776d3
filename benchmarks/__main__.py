"""Run one benchmark: `python -m benchmarks NAME [--json] [--full] [--seed N]`."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

NAMES = (
    "commands",
    "annotate-cycle",
    "first-visit",
    "soak",
    "soak-sessions",
    "soak-arena",
    "soak-workers",
    "turns",
    "load",
    "people",
    "images",
    "stores",
    "studio",
    "mining",
    "train-step",
    "agreement",
    "analyze-scale",
    "answer-model",
    "bootstrap",
    "coverage",
    "retrieve",
    "live",
    "permutation",
    "system-strengths",
    "systems",
    "fisd-drawn",
    "rounds",
    "reliability",
    "ablation",
    "loop-learns",
    "active-choice",
    "gpu",
    "monitoring",
    "mapnet",
    "bi-directional",
    "export-million",
    "five-million",
    "participants",
)
"""Each is a module of this package with `run(seed, full) -> result`, a dict with its name.

A module may also have `markdown(result)` and `write(result, folder) -> files`.
"""


def main() -> None:
    """Run the benchmark that the command line names and print its result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--full", action="store_true", help="the long version")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="folder of ablation's files and figures; else runs/ablation"
    )
    parser.add_argument("--device", help="of gpu: cuda, or cpu to try it; else the GPU")
    options = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{options.name.replace('-', '_')}")
    of_gpu = {"device": options.device} if options.name == "gpu" else {}
    result = module.run(seed=options.seed, full=options.full, **of_gpu)
    if hasattr(module, "write"):
        result["files"] = module.write(result, options.out or Path("runs") / options.name)
    as_text = getattr(module, "markdown", table)
    print(json.dumps(result, indent=2) if options.json else as_text(result))


def table(result: dict[str, Any]) -> str:
    """The result as text: its figures, then its cases."""
    lines = [f"{key}: {value}" for key, value in result.items() if key != "cases"]
    lines += [
        "  ".join(f"{key} {value}" for key, value in case.items()) for case in result["cases"]
    ]
    return "\n".join(lines)


main()
