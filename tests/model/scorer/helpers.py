"""Small training runs in this process and in others, and their results."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from hsfiq import cli
from hsfiq.model.checkpoints import Checkpoint, read
from hsfiq.model.data import TrainingData
from hsfiq.model.recipes import Recipe, on_drawn, recipe
from hsfiq.model.runtime import Distributed, join_processes
from hsfiq.model.scorer.job import Callback, Step, TrainingJob
from hsfiq.model.scorer.loading import ScorerPaths
from hsfiq.model.scorer.negatives import Definition
from hsfiq.model.scorer.run import run
from tests.processes import forkserver_context

CPU = torch.device("cpu")
ONE_PROCESS = Distributed(CPU)
SMALL = replace(
    on_drawn(recipe("cirqrs-fashioniq")), epochs=4, n_def=2, n_neg=5, batch=13, val_recall=(1, 5)
)
"""Four epochs, the last two on redefined negatives."""


@dataclass(frozen=True)
class Drawn:
    """Data drawn once, the folder of its pictures, and their feature cache."""

    data: TrainingData
    pictures: Path
    cache: Path

    def first(self, n: int) -> TrainingData:
        """The same data with the first n training triplets."""
        return replace(self.data, train=self.data.train[:n])


class Recorder(Callback):
    """Records the calls of a run."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.definitions: list[Definition] = []
        self.epochs: list[dict[str, Any]] = []
        self.closed = 0

    @property
    def losses(self) -> list[float]:
        return [step.loss for step in self.steps]

    def defined(self, definition: Definition) -> None:
        self.definitions.append(definition)

    def stepped(self, step: Step) -> None:
        self.steps.append(step)

    def ended(self, epoch: dict[str, Any]) -> None:
        self.epochs.append(epoch)

    def close(self) -> None:
        self.closed += 1


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended."""

    out: Path
    best: Checkpoint
    recorder: Recorder

    @property
    def last(self) -> Checkpoint:
        return read(self.out / "last.json")


def train(
    drawn: Drawn,
    out: Path,
    recipe: Recipe = SMALL,
    *,
    data: TrainingData | None = None,
    cached: bool = True,
    init: Path | None = None,
    save_every: float = 600,
) -> FinishedRun:
    """Run a recipe to its end in this process."""
    recorder = Recorder()
    paths = ScorerPaths(init, cache=drawn.cache)
    data = data or drawn.data
    best = run(recipe, TrainingJob(data, out, paths, ONE_PROCESS, recorder, cached, save_every))
    return FinishedRun(out, best, recorder)


def logged(out: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and values of TensorBoard's log."""
    events = EventAccumulator(str(out / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file with its content, to check that nothing has changed."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def in_processes(n: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call `function(distributed, *args)` in n processes, joined as `torchrun` joins them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = forkserver_context()
    pipes = [context.Pipe(duplex=False) for _ in range(n)]
    processes = [
        context.Process(target=answer, args=(pipes[i][1], i, n, port, function, args), daemon=True)
        for i in range(n)
    ]
    try:
        for process, (_, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()  # so that the end of the process is the end of the pipe
        return [received(receiver) for receiver, _ in pipes]
    finally:
        for process, (receiver, _) in zip(processes, pipes, strict=True):
            receiver.close()
            process.kill()
            process.join()
            process.close()


def received(receiver: Connection) -> Any:
    """The value that a process sent; EOFError if it failed, with its traceback on stderr."""
    return pickle.loads(receiver.recv_bytes())


def answer(
    sender: Connection,
    rank: int,
    size: int,
    port: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """Join the other processes, call the function and send its result."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    torch.set_num_threads(1)
    with join_processes("cpu") as distributed:
        sender.send_bytes(pickle.dumps(function(distributed, *args)))


def train_shared(
    distributed: Distributed,
    recipes: Mapping[str, Recipe],
    data: TrainingData,
    out: Path,
    cache: Path,
) -> dict[str, Recorder]:
    """One process's part of several runs, each in its own folder."""
    recorders = {name: Recorder() for name in recipes}
    for name, run_recipe in recipes.items():
        paths = ScorerPaths(cache=cache)
        run(run_recipe, TrainingJob(data, out / name, paths, distributed, recorders[name]))
    return recorders


class Killer(Callback):
    """Kills its process at the nth call of a method, before other callbacks are called."""

    def __init__(self, method: str, nth: int) -> None:
        self._method, self._left = method, nth

    def _count(self, method: str) -> None:
        self._left -= method == self._method
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    def defined(self, *_: object) -> None:
        self._count("defined")

    def stepped(self, *_: object) -> None:
        self._count("stepped")

    def ended(self, *_: object) -> None:
        self._count("ended")

    def saving(self) -> None:
        self._count("saving")


def train_until_killed(
    recipe: Recipe, drawn: Drawn, out: Path, method: str, nth: int, save_every: float
) -> None:
    torch.set_num_threads(1)
    paths = ScorerPaths(cache=drawn.cache)
    killer = Killer(method, nth)
    run(recipe, TrainingJob(drawn.data, out, paths, ONE_PROCESS, killer, save_every=save_every))


def is_killed(function: Callable[..., None], *args: Any) -> bool:
    """Call a function in a process and return whether SIGKILL ended it."""
    process = forkserver_context().Process(target=function, args=args, daemon=True)
    process.start()
    process.join()
    code = process.exitcode
    process.close()
    return code == -signal.SIGKILL


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.err.splitlines()[-1]

    @property
    def result(self) -> Any:
        return json.loads(self.out)


def hsfiq(*words: str | Path) -> CommandResult:
    """Run a command in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run([str(word) for word in words])
    return CommandResult(code, out.getvalue(), err.getvalue())


def options(drawn: Drawn, out: Path, *extra: str | Path) -> tuple[str | Path, ...]:
    """The words of `hsfiq train` for `SMALL` on the drawn data."""
    values = ("epochs=4", "n_def=2", "n_neg=5", "batch=13", "val_recall=1,5", "seed=7")
    return (
        *("train", "cirqrs-fashioniq", "--data", "drawn", "--limit", "60", "--out", out),
        *("--images", drawn.pictures, "--cache", drawn.cache),
        *(word for value in values for word in ("--set", value)),
        *extra,
    )
