"""Processes that start with the libraries imported, which a new interpreter needs seconds for.

They fork from a server process that has imported the packages and has no thread, no connection and
nothing that a test has changed. `make demo` and the wheel are tested with new interpreters.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import BaseContext, ForkServerContext, ForkServerProcess
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

# The installation may hold no bytecode. Then each new interpreter compiles all that it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PRELOADED = {
    "gradio": [
        "hsfiq.annotate.app",
        "tests.built_commands",
        "pydantic.v1",
        "uvicorn.loops.asyncio",
        "anyio._backends._asyncio",
    ],
    "psycopg": ["psycopg"],
    "torch": ["hsfiq.model.scorer.run", "torch._dynamo"],
    "pandas": ["hsfiq.analysis.analyze"],
    "matplotlib": ["matplotlib.backends.backend_pdf", "matplotlib.backends.backend_svg"],
    "PIL": ["tests.drawn_shapes"],
}
"""The modules that the server imports, by the library that each needs.

torch._dynamo is what an optimiser's first step imports, for seconds; what pictures of garments
share, the first pictures draw for a second; pydantic.v1 is what FastAPI's first route imports, the
backend of anyio what an app's first event loop imports, and psycopg what a PostgreSQL engine does.
"""


def forkserver_context() -> ForkServerContext:
    """The context of processes that fork from the server."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(preloaded_modules())
    return context


def preloaded_modules() -> list[str]:
    return ["tests.processes"] + [
        module
        for library, modules in PRELOADED.items()
        if importlib.util.find_spec(library)
        for module in modules
    ]


SERVER: Any = vars(forkserver)["_forkserver"]
"""This process's server; multiprocessing has no other way to use that of another process."""

CONNECTION = ("_forkserver_address", "_forkserver_authkey")
"""The attributes with which a process connects to the server; Python 3.14 has added the second."""


SERVER_VARIABLE = "HSFIQ_TEST_FORK_SERVER"


def started_server(preloaded: Sequence[str]) -> dict[str, Any]:
    """Start the server with further modules; return what others need to fork from it, too."""
    context = forkserver_context()
    context.set_forkserver_preload([*preloaded_modules(), *preloaded])
    SERVER.ensure_running()
    return connection()


def connection() -> dict[str, Any]:
    return {name: getattr(SERVER, name, None) for name in CONNECTION}


def use_server(started: Mapping[str, Any]) -> None:
    """Let the processes of this one fork from the server that another process has started."""
    vars(SERVER).update(
        started,
        _forkserver_alive_fd=os.open(os.devnull, os.O_RDONLY),  # the starter keeps it alive
        ensure_running=resource_tracker.ensure_running,
    )


class Fork:
    """A process that calls a function with `sys.argv` set, like `python -c` with arguments.

    `log` receives its output, after what the file holds already; `errors`, if it is given, what the
    process writes to standard error.
    """

    def __init__(
        self,
        function: Callable[[], object],
        arguments: Sequence[str | Path],
        log: Path,
        errors: Path | None = None,
        **environment: str,
    ) -> None:
        words = [function.__name__, *map(str, arguments)]
        variables = {**os.environ, **environment}
        self._process: ForkServerProcess = forkserver_context().Process(
            target=_run, args=(function, words, (log, errors or log), Path.cwd(), variables)
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, -N if signal N ended it; None if it has not ended."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise TimeoutError(f"process {self.pid} has not ended within {timeout} seconds")
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def pool_of_one(mp_context: BaseContext, initializer: Callable[[], object]) -> ProcessPoolExecutor:
    """A pool of one process, instead of as many as there are cores."""
    return ProcessPoolExecutor(1, forkserver_context(), initializer)


def start_command(*words: str | Path, log: Path, **environment: str) -> Fork:
    """Start `hsfiq WORDS` as a process."""
    return Fork(run_command_line, words, log, **environment)


def run_command_line() -> None:
    """Do what the installed command does."""
    from hsfiq import cli

    cli.main()


class ForkedJob(Fork):
    """What `Popen` starts for a command of a job."""

    def __init__(
        self, command: Sequence[str], *, env: dict[str, str], stdout: IO[bytes], **_: object
    ) -> None:
        from hsfiq.jobs import PARENT

        assert command[:3] == [sys.executable, "-m", "hsfiq"]
        environment = {**env, PARENT: ""}  # the server of the tests is the parent
        super().__init__(run_command_line, command[3:], Path(stdout.name), **environment)

    def wait(self, timeout: float | None = None) -> int:
        try:
            return super().wait(timeout)
        except TimeoutError as error:
            raise subprocess.TimeoutExpired("hsfiq", timeout or 0) from error

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def forked_jobs() -> Iterator[None]:
    """Within the block, commands of jobs fork, too; tests/hsfiq/test_jobs.py starts new ones."""
    names = ("DEVNULL", "STDOUT", "TimeoutExpired")
    same = {name: getattr(subprocess, name) for name in names}
    with patch("hsfiq.jobs.subprocess", SimpleNamespace(Popen=ForkedJob, **same)):
        yield


def start_with_jobs(*words: str | Path, log: Path) -> Fork:
    """As `start_command`, for a command that runs jobs: these fork, too."""
    return Fork(run_with_jobs, words, log, **{SERVER_VARIABLE: json.dumps(connection())})


def run_with_jobs() -> None:
    use_server(json.loads(os.environ[SERVER_VARIABLE]))
    with forked_jobs():
        run_command_line()


def _run(
    function: Callable[[], object],
    words: list[str],
    outputs: tuple[Path, Path],
    folder: Path,
    environment: dict[str, str],
) -> None:
    gc.freeze()  # what the server has imported is not examined again
    os.setsid()
    become_command()
    for stream, path in enumerate(outputs, start=1):
        with path.open("ab") as output:
            os.dup2(output.fileno(), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = words
    try:
        function()
    except KeyboardInterrupt:  # ends an interpreter by the signal itself
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def become_command() -> None:
    """Handle signals as a new interpreter does.

    A suite that was started with `nohup` or in the background ignores some, and its processes
    would inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
