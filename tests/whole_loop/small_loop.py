"""A small loop of `hsfiq demo --full`, and processes that run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, NoReturn
from unittest.mock import patch

import pytest
import typer
from sqlalchemy import func, select

from hsfiq.db.engine import open_database
from hsfiq.demo import loop
from hsfiq.demo.loop import (
    SYSTEMS,
    Server,
    Sizes,
    Step,
    address_of,
    loop_steps,
    run_loop,
    run_to_end,
)
from hsfiq.demo.study import database_url, make_study, served_design
from hsfiq.signals import Signals
from tests.processes import Fork, become_command, run_command_line

SEED = 1
PARTICIPANTS, QUESTIONS = 3, 8
write, warn = typer.echo, partial(typer.echo, err=True)
TINY = Sizes(
    systems=("clip4cir",),
    system_training=("--limit", "20", "--set", "epochs=1,1"),
    searches=2,
    participants=PARTICIPANTS,
    limit=20,
    training=("epochs=2", "n_def=1"),
    retraining=("epochs=1",),
    next_pairs=3,
)

FOREVER = 1e6


def make_small_study(folder: Path) -> None:
    """Make the study of `hsfiq demo --simulated`, but smaller."""
    folder.mkdir()
    database = open_database(database_url(folder))
    design = replace(served_design(SEED), questions_per_form=QUESTIONS // 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hsfiq.demo.study.GARMENTS_PER_CATEGORY", 16)
        make_study(database, folder, design, PARTICIPANTS, simulated=True)
    database.close()


def small_loop(folder: Path, port: int) -> list[Step]:
    """Return the loop's steps; the server uses the small study that the folder holds."""
    options = ("--participants", str(PARTICIPANTS), "--systems", str(folder / SYSTEMS))
    return [
        replace(step, words=tuple(word for word in step.words if word not in options))
        if step.serves
        else step
        for step in loop_steps(folder, port, SEED, TINY)
    ]


def serving(steps: Sequence[Step]) -> list[Step]:
    """The steps that serve the study and let annotators answer it."""
    return [step for step in steps if step.serves or step.is_served]


ENDS_SLOWLY = """
import http.server, pathlib, signal, sys, time

def end(*_):
    pathlib.Path(name + ".signalled").touch()
    while not pathlib.Path(name + ".may-end").exists():
        time.sleep(0.02)
    pathlib.Path(name + ".ended").touch()
    sys.exit()

name, port = sys.argv[1:]
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
pathlib.Path(name + ".began").touch()
if int(port):
    http.server.test(http.server.SimpleHTTPRequestHandler, port=int(port), bind="127.0.0.1")
while True:
    signal.pause()
"""
"""A command, or with a port a server, that ends only after `.may-end` exists."""


def run_slow_processes() -> None:
    """Run such a command and such a server, and wait for both without a time limit."""
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    loop.INTERRUPT_SECONDS = loop.TERMINATE_SECONDS = FOREVER
    command = [sys.executable, "-c", ENDS_SLOWLY]
    with Signals() as signals, Server(address_of(port), folder / "server.log", signals) as server:
        assert server.start([*command, str(folder / "server"), str(port)]) is None
        run_to_end([*command, str(folder / "command"), "0"], signals)


def run_small_loop() -> None:
    """Run the small loop; with the argument `slowly`, only until its endless third step.

    The steps' processes fork from this one.
    """
    from hsfiq.model.retrieval import tiny  # torch is there, as in each process

    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    steps = small_loop(folder, port)
    if sys.argv[3:] == ["slowly"]:
        served, answered = serving(steps)
        steps = [served, replace(answered, words=(*answered.words, "--speed", "600"))]
    forking = SimpleNamespace(Popen=fork_step, TimeoutExpired=subprocess.TimeoutExpired)
    brief = replace(tiny.STAGE, epochs=6)
    with patch.object(loop, "subprocess", forking), patch.object(tiny, "STAGE", brief):
        run_loop(steps, folder, port, write, warn)


class Command(Fork):
    """What `Popen` starts for `python -m hsfiq WORDS`, forked from the server of the tests."""

    def __init__(
        self,
        command: Sequence[str],
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,  # noqa: ARG002 -- the same file
    ) -> None:
        assert command[:3] == [sys.executable, "-m", "hsfiq"]
        log = os.devnull if stdout is None else stdout.name
        super().__init__(run_command_line, command[3:], Path(log))

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_step(
    command: Sequence[str], stdout: IO[bytes] | None = None, stderr: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Start `python -m hsfiq WORDS` as a process that forks from this one."""
    assert command[:3] == [sys.executable, "-m", "hsfiq"]
    return subprocess.Popen(
        command,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=partial(run_step, command),  # noqa: PLW1509
    )


def run_step(command: Sequence[str]) -> NoReturn:
    """Run the command in the new process, in place of the program that `Popen` would start."""
    os.closerange(3, 4096)  # with the pipe on which `Popen` waits for the program's start
    become_command()
    sys.argv = ["hsfiq", *command[3:]]
    code = 1
    try:
        run_command_line()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait_until(condition: Callable[[], bool], process: Fork | subprocess.Popen[bytes]) -> None:
    """Wait until the condition is met or the process has ended."""
    while not condition() and process.poll() is None:
        time.sleep(0.05)


def count(folder: Path, table: type) -> int:
    """How many rows the demo's database holds."""
    database = open_database(database_url(folder))
    with closing(database), database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def is_alive(group: int) -> bool:
    """Whether a process of the group is still running."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
