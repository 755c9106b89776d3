"""Evaluating ranked lists needs only the core: no torch, no numpy, no images."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.evaluation.helpers import (
    DRESSES,
    MEMBERS,
    filled,
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
    process = subprocess.run(
        [sys.executable, "-c", BARE, *map(str, arguments)],
        env=own_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_the_benchmarks_run_without_extras(tmp_path: Path) -> None:
    dresses = {f"dress.val.{i}": filled([f"d{2 * i + 1}"], DRESSES) for i in range(2)}
    run = put(tmp_path / "dress.json", dresses)
    data = write_fashioniq(tmp_path / "fashioniq")
    printed = bare(
        "evaluate", "fashioniq", "--data", data, "--run", run, "--category", "dress", "--json"
    )
    assert json.loads(printed)["recall@1"] == 1.0

    candidates = {i: [member for member in MEMBERS if member != MEMBERS[6 * i]] for i in range(4)}
    lists = {str(10 + i): filled(MEMBERS[6 * i + 1 : 6 * i + 6], candidates[i]) for i in range(4)}
    run = put(tmp_path / "cirr.json", lists)
    data = write_cirr(tmp_path / "cirr")
    printed = bare(
        "evaluate", "cirr", "--data", data, "--run", run, "--submission", tmp_path / "out"
    )
    assert "recall_subset@1" in printed
    assert len(list((tmp_path / "out").iterdir())) == 2

    run = put(tmp_path / "circo.json", {"0": list(range(201, 251)), "1": list(range(201, 251))})
    data = write_circo(tmp_path / "circo")
    assert "map@5" in bare("evaluate", "circo", "--data", data, "--run", run)


@pytest.mark.parametrize(
    "module",
    ["benchmarks", "metrics", "lists", "evaluate", "composition", "systems"],
)
def test_no_module_of_ranked_lists_imports_torch(module: str) -> None:
    code = (
        f"import sys, hsfiq.model.evaluation.{module}; "
        "print(*({'torch', 'numpy', 'PIL', 'pyarrow', 'sqlalchemy'} & set(sys.modules)))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=own_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == ""
