"""Each recipe of CONTRIBUTING.md works on a copy of the packages: its diff, then its commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.studies import ROOT, own_environment

PACKAGES = ("hsfiq", "annotate", "analysis", "model", "migrations")
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"(?ms)^### (Add [^\n]+)\n(.*?)(?=^##|\Z)", TEXT))


def blocks(recipe: str, language: str) -> list[str]:
    """The code blocks of a recipe in one language."""
    return re.findall(rf"```{language}\n(.*?)```", RECIPES[recipe], re.DOTALL)


def test_every_promised_recipe_exists() -> None:
    assert set(RECIPES) == {
        "Add a metric",
        "Add an encoder",
        "Add a filter",
        "Add a release layout",
        "Add a question kind",
    }


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name in RECIPES if blocks(name, "diff")])
def test_the_recipe_works(recipe: str, tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package,
            tmp_path / "code" / package,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for diff in blocks(recipe, "diff"):
        subprocess.run(
            ["git", "apply", "-"], cwd=tmp_path / "code", input=diff, text=True, check=True
        )
    commands = tmp_path / "commands"
    commands.mkdir()
    (script,) = blocks(recipe, "bash")
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=commands,
        env=own_environment(
            PYTHONPATH=str(tmp_path / "code"),
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
