"""Each recipe of CONTRIBUTING.md works on a copy of the packages: its change, then its commands."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.browsing import free_port
from tests.processes import Fork
from tests.studies import ROOT

PACKAGES = ("hsfiq", "annotate", "analysis", "model", "migrations")
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"(?ms)^### (Add [^\n]+)\n(.*?)(?=^##|\Z)", TEXT))


FOLDER = ROOT / "docs" / "recipes"


def commands_of(recipe: str) -> str:
    """The commands of a recipe."""
    return "".join(re.findall(r"```bash\n(.*?)```", RECIPES[recipe], re.DOTALL))


def change_of(recipe: str) -> str:
    """The file with the change of a recipe, in `FOLDER`."""
    (name,) = re.findall(r"\(docs/recipes/(\w+\.diff)\)", RECIPES[recipe])
    return str(name)


def test_every_promised_recipe_exists() -> None:
    assert set(RECIPES) == {
        "Add a metric",
        "Add an encoder",
        "Add a filter",
        "Add a release layout",
        "Add a question kind",
    }
    assert {change_of(recipe) for recipe in RECIPES} == {path.name for path in FOLDER.iterdir()}


def test_contributing_is_short() -> None:
    assert len(TEXT.split()) <= 1500


def run_script() -> None:
    """Run a script of commands with the code of a folder, until one fails.

    Only the libraries stay imported. Lines of `hsfiq` are run here, others by bash. A server, which
    a line that ends with `&` starts, is stopped at the end.
    """
    code, script, port = sys.argv[1:]
    for name in [name for name in sys.modules if name.partition(".")[0] == "hsfiq"]:
        del sys.modules[name]
    sys.path.insert(0, code)
    cli = importlib.import_module("hsfiq.cli")
    assert Path(str(cli.__file__)).is_relative_to(code)
    importlib.import_module("hsfiq.demo.study").GARMENTS_PER_CATEGORY = 20
    servers: list[int] = []
    try:
        for line in script.replace("\\\n", " ").splitlines():
            command, *words = shlex.split(line)
            if words[-1] == "&":
                servers.append(start_server(cli.run, [*words[:-1], "--port", port], int(port)))
                continue
            exit_code = cli.run(words) if command == "hsfiq" else run_bash(line)
            if exit_code:
                sys.exit(f"exit code {exit_code}: {line}")
    finally:
        for server in servers:
            os.kill(server, signal.SIGKILL)


def start_server(run: Callable[[list[str]], int], words: list[str], port: int) -> int:
    """Start a server in a process of its own; its id, as soon as it answers."""
    process = os.fork()
    if process == 0:
        os._exit(run(words))
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            sys.exit(f"exit code {os.waitstatus_to_exitcode(status)}: hsfiq {shlex.join(words)}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return process
        time.sleep(0.1)


def run_bash(line: str) -> int:
    return subprocess.run(["bash", "-euo", "pipefail", "-c", line], check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_recipe_works(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package,
            tmp_path / "code" / package,
            symlinks=True,
            ignore=shutil.ignore_patterns("*.pyc.*"),  # bytecode that another process is writing
        )
    change = FOLDER / change_of(recipe)
    subprocess.run(["git", "apply", change], cwd=tmp_path / "code", check=True)
    commands = tmp_path / "commands"
    commands.mkdir()
    monkeypatch.chdir(commands)
    port = str(free_port())
    script = commands_of(recipe).replace("7860", port)
    log = tmp_path / "log.txt"
    process = Fork(run_script, [tmp_path / "code", script, port], log)
    assert process.wait() == 0, log.read_text()
