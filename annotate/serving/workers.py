"""Several processes that serve one address, and one process that starts and replaces them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import getLogger
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from threading import Thread
from time import monotonic

from hsfiq.signals import Signals

RESTART_SECONDS = 1.0
"""The minimum time between two starts of a worker, so that a failing worker uses no core."""

STOP_SECONDS = 30.0
"""How long workers may take to end after a signal; requests are given 2 seconds."""

logger = getLogger(__name__)


def supervise(
    work: Callable[[], None], number: int, signals: Signals, ended: Callable[[int], None]
) -> None:
    """Call `work` in `number` processes until a signal arrives; restart a process that ends.

    `work` must be picklable. The processes fork from one that has imported the app, which is fast
    and shares memory. `ended` is called with the id of one that has ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hsfiq.annotate.app"])
    with signalled(signals) as signal_arrived:
        workers = [Worker(context.Process(target=work)) for _ in range(number)]
        while signals.received is None:
            wait([signal_arrived, *(worker.process.sentinel for worker in workers)])
            for index, worker in enumerate(workers):
                if signals.received is None and not worker.process.is_alive():
                    logger.warning("a worker ended (%s); starting another", worker.ending())
                    ended(worker.pid)
                    if not wait([signal_arrived], worker.seconds_to_restart()):
                        workers[index] = Worker(context.Process(target=work))
        end(workers)


class Worker:
    """A started process."""

    def __init__(self, process: ForkServerProcess) -> None:
        self.process = process
        self._started = monotonic()
        process.start()
        self.pid = process.pid or 0

    def seconds_to_restart(self) -> float:
        return max(0.0, self._started + RESTART_SECONDS - monotonic())

    def ending(self) -> str:
        code = self.process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def end(workers: list[Worker]) -> None:
    """End the processes; kill a process that does not end in time."""
    deadline = monotonic() + STOP_SECONDS
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(max(0.0, deadline - monotonic()))
        worker.process.kill()
        worker.process.join()


@contextmanager
def signalled(signals: Signals) -> Iterator[int]:
    """A file descriptor that can be read once a signal has arrived."""
    reader, writer = os.pipe()

    def write() -> None:
        os.write(writer, b".")

    signals.call(write)
    try:
        yield reader
    finally:
        signals.call(lambda: None)
        os.close(reader)
        os.close(writer)


@contextmanager
def terminated_with_parent() -> Iterator[None]:
    """Within the block, send SIGTERM to this worker when its parent process ends."""
    parent = multiprocessing.parent_process()
    if parent is None:
        raise RuntimeError("this process is not a worker")
    parents_end = parent.sentinel
    reader, writer = os.pipe()

    def watch() -> None:
        if reader not in wait([parents_end, reader]):
            os.kill(os.getpid(), signal.SIGTERM)

    thread = Thread(target=watch, name="parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(writer, b".")
        thread.join()
        os.close(reader)
        os.close(writer)
