"""Evaluating ranked lists needs only the core: no torch, no numpy, no images."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.model.evaluation.helpers import (
    BEST_RUN,
    best_of_cirr,
    put,
    write_circo,
    write_cirr,
    write_fashioniq,
)
from tests.studies import own_environment

BARE = """
import sys
for name in ("torch", "numpy", "pandas", "PIL", "safetensors", "scipy", "gradio", "matplotlib"):
    sys.modules[name] = None  # importing it fails
from hsfiq.cli import run
sys.exit(run(sys.argv[1:]))
"""


def bare(*arguments: str | Path) -> str:
    """Run a command in a process that cannot import any extra."""
    return printed_by(BARE, *map(str, arguments))


def printed_by(code: str, *arguments: str) -> str:
    """What a new interpreter prints, without an error."""
    words = [sys.executable, "-c", code, *arguments]
    process = subprocess.run(
        words, env=own_environment(), capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_the_benchmarks_run_without_extras(tmp_path: Path) -> None:
    run, data = put(tmp_path / "best.json", BEST_RUN), write_fashioniq(tmp_path / "fashioniq")
    printed = bare("evaluate", "fashioniq", "--data", data, "--run", run, "--json")
    assert json.loads(printed)["recall@1"] == 1.0
    run, out = put(tmp_path / "cirr.json", best_of_cirr()), tmp_path / "out"
    data = write_cirr(tmp_path / "cirr")
    printed = bare("evaluate", "cirr", "--data", data, "--run", run, "--submission", out)
    assert "recall_subset@1" in printed
    assert len(list(out.iterdir())) == 2
    run = put(tmp_path / "circo.json", {"0": list(range(201, 251)), "1": list(range(201, 251))})
    data = write_circo(tmp_path / "circo")
    assert "map@5" in bare("evaluate", "circo", "--data", data, "--run", run)


def test_no_module_of_ranked_lists_imports_torch() -> None:
    names = ("benchmarks", "metrics", "lists", "evaluate", "composition", "systems_table")
    imported = ", ".join(f"hsfiq.model.evaluation.{name}" for name in names)
    extras = {"torch", "numpy", "PIL", "pyarrow", "sqlalchemy"}
    assert printed_by(f"import sys, {imported}; print(*({extras} & set(sys.modules)))") == "\n"
