"""The processes of `hsfiq demo --full`: commands that run to their end, and a server meanwhile.

None outlives this process, even after a failure or after several signals. All stay in its process
group, so that they also receive Ctrl-C and the closing of the terminal.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx

from hsfiq.live.certificates import certificates
from hsfiq.signals import Signals

START_SECONDS = 300.0
"""How long a server may take to start, as it first draws its catalogue."""

INTERRUPT_SECONDS = 5.0
"""How long a command may clean up after Ctrl-C, which it receives too, before it is terminated."""

TERMINATE_SECONDS = 10.0
"""How long a terminated process may clean up before it is killed."""

POLL_SECONDS = 0.2

PAGE_SECONDS = 5.0
"""How long to wait for a page."""


def run_to_end(command: Sequence[str], signals: Signals) -> int:
    """Run a command, which writes to the terminal; return its exit code.

    If a signal is received, `KeyboardInterrupt` is raised after the command has ended.
    """
    process = subprocess.Popen(command)  # noqa: S603 (ours)
    try:
        exit_code = None
        while exit_code is None:
            with suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(POLL_SECONDS)
            signals.heed()
        return exit_code
    finally:
        if signals.received is signal.SIGINT:
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process and wait for its end; kill it if it takes too long."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """A server at a URL, in its own process, which ends with the block; `log` is for its output."""

    def __init__(self, address: str, log: Path, signals: Signals) -> None:
        self.address = address
        self._log = log
        self._signals = signals
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, command: Sequence[str]) -> str | None:
        """Start it and wait until it answers; return the reason if it does not.

        Raises:
            KeyboardInterrupt: a signal was received.
        """
        if self.answers():
            return f"another program answers at {self.address}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 (ours)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._signals.heed()
            if self.exit_code is not None:
                return self.output()
            if self.answers():
                return None
            time.sleep(POLL_SECONDS)
        return f"{self.address} has not answered for {START_SECONDS:.0f} seconds"

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)

    @property
    def exit_code(self) -> int | None:
        """The exit code of its process; None if it has not ended."""
        return None if self._process is None else self._process.poll()

    def answers(self) -> bool:
        """Return whether any server at the address answers with a page."""
        try:
            response = httpx.get(
                self.address, timeout=PAGE_SECONDS, trust_env=False, verify=certificates()
            )
        except httpx.HTTPError:
            return False
        return not response.is_error

    def output(self) -> str:
        """Return its exit code and what it printed."""
        printed = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return f"the server has ended with exit code {self.exit_code} and printed:\n{printed}"
