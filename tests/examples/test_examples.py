"""Every script in examples/ runs in an empty folder and prints its result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.studies import ROOT, own_environment

EXAMPLES = ROOT / "examples"
PRINTED = {
    "evaluate_my_metric": "report/report.html written",
    "set_up_a_study": "shirts",
    "train_a_scorer": "cirqrs: rho ",
}


def test_every_script_is_tested_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(PRINTED)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.py)" in readme for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_the_script_runs(name: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=own_environment(MPLBACKEND="agg"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert PRINTED[name] in process.stdout
