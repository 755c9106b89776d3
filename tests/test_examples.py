"""Every script in examples/ runs in an empty folder and prints its result."""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import pytest

from tests.processes import Fork
from tests.studies import ROOT

EXAMPLES = ROOT / "examples"
PRINTED = {
    "evaluate_my_metric": "report/report.html written",
    "set_up_a_study": "shirts",
    "train_a_scorer": "cirqrs: rho ",
}
SERVER = "live_retriever"
"""Serves until it is stopped; `tests/hsfiq/live/test_conformance.py` runs it."""


def test_every_script_is_tested_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*PRINTED, SERVER}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.py)" in readme for name in names)


def run_example() -> None:
    """Run a script as `python -W error SCRIPT` does."""
    warnings.simplefilter("error")
    runpy.run_path(sys.argv[1], run_name="__main__")


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_the_script_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log.txt"
    process = Fork(run_example, [EXAMPLES / f"{name}.py"], log, MPLBACKEND="agg")
    assert process.wait() == 0, log.read_text()
    assert PRINTED[name] in log.read_text()
