"""A browser on this machine, and timing of its users."""

from __future__ import annotations

import http.client
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from hsfiq.simulate import browser as simulate
from hsfiq.simulate.browser import Refusal


class Browser(simulate.Browser):
    """One person's connection to a server on this machine."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        super().__init__(f"http://127.0.0.1:{port}", timeout)


class User(Protocol):
    """Somebody who annotates."""

    def cycle(self) -> None:
        """Save an answer and get the next question."""


def time_cycles(users: Sequence[User], cycles: int, warm_up: int) -> list[float]:
    """All users at once, each in a thread: the seconds of every cycle after the warm-up ones."""
    seconds: list[float] = []
    errors: list[Exception] = []
    start = threading.Barrier(len(users))

    def work(user: User) -> None:
        try:
            for _ in range(warm_up):
                user.cycle()
            start.wait()
            for _ in range(cycles):
                before = time.perf_counter()
                user.cycle()
                seconds.append(time.perf_counter() - before)
        except Exception as error:  # noqa: BLE001 (raised again by the caller, whatever it is)
            errors.append(error)
            start.abort()

    threads = [threading.Thread(target=work, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return seconds


def quantiles(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return round(1000 * statistics.median(ordered), 2), round(1000 * p95, 2)


def wait_until(is_ready: Callable[[], bool], what: str, patience: float = 60) -> None:
    """Wait for something to come true.

    Raises:
        TimeoutError: it did not within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if is_ready():
            return
        time.sleep(0.1)
    raise TimeoutError(f"{what} is not ready after {patience} s")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int, path: str) -> bool:
    """Whether a server answers at this path."""
    browser = Browser(port, timeout=2)
    try:
        browser.get(path)
    except (OSError, Refusal, http.client.HTTPException):
        return False
    finally:
        browser.close()
    return True
