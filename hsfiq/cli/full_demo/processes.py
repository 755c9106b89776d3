"""The processes of `hsfiq demo --full`: commands run to their end, and a server beside them.

None of them outlives us: not when another fails, nor when we are told to end, be it twice. They
stay in our group of processes, so that Ctrl-C and the end of a terminal reach them as well.
"""

from __future__ import annotations

import http.client
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from hsfiq.cli.full_demo.signals import Signals
from hsfiq.simulate.browser import Browser, Refusal

PATIENCE = 300.0
"""Seconds for which a server that has been started may draw its catalogue before it answers."""

AFTER_INTERRUPT = 5.0
"""Seconds for which a command may put the terminal in order after Ctrl-C, which it hears too."""

GRACE = 10.0
"""Seconds for which a process that was told to end may take to do so."""

LOOKED_EVERY = 0.2
"""Seconds between two looks at a process, and at whether we are told to end."""

ANSWERS_WITHIN = 5.0
"""Seconds after which a page that was asked for counts as missing."""


def run_to_end(command: Sequence[str], signals: Signals) -> int:
    """Run a command, which writes straight to our terminal; its exit code.

    Raises:
        KeyboardInterrupt: we were told to end; the command has ended, too.
    """
    process = subprocess.Popen(command)  # noqa: S603 (ours)
    try:
        exit_code = None
        while exit_code is None:
            with suppress(subprocess.TimeoutExpired):
                exit_code = process.wait(LOOKED_EVERY)
            signals.heed()
        return exit_code
    finally:
        if signals.came is signal.SIGINT:
            with suppress(subprocess.TimeoutExpired):
                process.wait(AFTER_INTERRUPT)
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Tell a process to end, and see to it; nothing is done where it has ended."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """A server as a process of its own, which does not outlive the block.

    Attributes:
        address: where it answers.
    """

    def __init__(self, address: str, log: Path, signals: Signals) -> None:
        """Make ready to start one.

        Args:
            address: where it will answer.
            log: takes what it prints.
            signals: heeded while it starts.
        """
        self.address = address
        self._log = log
        self._signals = signals
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, command: Sequence[str]) -> str | None:
        """Start it and wait until its first page is there.

        Returns:
            Why it does not serve, in a line; None where it does.

        Raises:
            KeyboardInterrupt: we were told to end.
        """
        if self.answers():
            return f"{self.address} is served by something else"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 (ours)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._signals.heed()
            if self.exit_code is not None:
                return self.said()
            if self.answers():
                return None
            time.sleep(LOOKED_EVERY)
        return f"{self.address} has not answered for {PATIENCE:.0f} seconds"

    def stop(self) -> None:
        """End it; nothing is done where none runs."""
        if self._process is not None:
            end(self._process)

    @property
    def exit_code(self) -> int | None:
        """Of its process, once that has ended."""
        return None if self._process is None else self._process.poll()

    def answers(self) -> bool:
        """Whether something at the address answers with a page."""
        browser = Browser(self.address, timeout=ANSWERS_WITHIN)
        try:
            browser.get("/")
        except (Refusal, OSError, http.client.HTTPException):
            return False
        finally:
            browser.close()
        return True

    def said(self) -> str:
        """How it ended, and what it printed."""
        printed = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return f"the server has ended with exit code {self.exit_code} and said:\n{printed}"
