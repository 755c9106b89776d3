"""Running `hsfiq demo --full`: each step is printed, then runs as its own process.

The commands are printed in full and write to the terminal, so that users can run them again.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

from hsfiq.demo.processes import Server, run_to_end
from hsfiq.demo.steps import REPORT, SERVER_LOG, Step, address_of
from hsfiq.demo.summary import summarise
from hsfiq.errors import HsfiqError
from hsfiq.signals import Signals

LINE_WIDTH = 88
Write = Callable[[str], None]


class StepFailed(HsfiqError):
    """A command of the loop failed; the exit code is the command's."""

    def __init__(self, place: str, step: Step, exit_code: int) -> None:
        # As in a shell, a process that a signal has ended has the exit code 128 + signal.
        self.exit_code = exit_code if exit_code > 0 else 128 - exit_code
        command = shlex.join(("hsfiq", *step.words[:1]))
        super().__init__(
            f"`{command}` failed with exit code {self.exit_code}",
            where=f"step {place} ({step.title})",
        )


def run_loop(steps: Sequence[Step], folder: Path, port: int, write: Write, warn: Write) -> None:
    """Run the steps, stop the server in any case, and write a summary; `warn` prints errors.

    Raises:
        StepFailed: a command failed.
        KeyboardInterrupt: a signal was received.
    """
    with (
        Signals() as signals,
        Server(address_of(port), folder / SERVER_LOG, signals) as server,
    ):
        run_steps(steps, server, signals, write, warn)
    results = json.loads((folder / REPORT / "results.json").read_bytes())
    write("\n".join(summarise(results, folder)))


def run_steps(
    steps: Sequence[Step],
    server: Server,
    signals: Signals,
    write: Write,
    warn: Write,
    *,
    before: int = 0,
    after: int = 0,
) -> None:
    """Print and run the steps in their order, until one fails or a signal is received.

    `before` and `after` count the steps of the whole that come before these and after them.
    """
    for number, step in enumerate(steps, start=before + 1):
        place = f"{number} of {before + len(steps) + after}"
        if not step.is_served:
            server.stop()
        signals.heed()
        write(f"\n[{place}] {step.title}\n{wrap(step.why)}\n\n$ {step.command}")
        started = time.monotonic()
        if step.serves:
            start_server(step, place, server, warn)
            write(f"{server.address} answers")
        else:
            run_step(step, place, server, signals, warn)
        write(f"({time.monotonic() - started:.0f} s)")


def start_server(step: Step, place: str, server: Server, warn: Write) -> None:
    """Start the server and wait until it answers."""
    reason = server.start(step.process)
    if reason is not None:
        warn(reason)
        raise StepFailed(place, step, server.exit_code or 1)


def run_step(step: Step, place: str, server: Server, signals: Signals, warn: Write) -> None:
    exit_code = run_to_end(step.process, signals)
    if exit_code == 0:
        return
    if step.is_served and server.exit_code is not None:
        warn(server.output())
    raise StepFailed(place, step, exit_code)


def wrap(text: str) -> str:
    """Break the text into lines, but not within paths."""
    return fill(text, LINE_WIDTH, break_on_hyphens=False, break_long_words=False)
