"""A minimal HTTP client for load tests on this machine, and timing of its users.

It is http.client with cookies: at 32 users in one process, a client library would take more time
than the servers that are measured.
"""

from __future__ import annotations

import http.client
import re
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from http.cookies import SimpleCookie
from typing import Protocol
from urllib.parse import urlencode

MAX_AGE = re.compile(r"\bmax-age=(\d+)")


class Refusal(Exception):
    """The server answered with an error status."""

    def __init__(self, request: str, status: int, body: bytes) -> None:
        super().__init__(f"{request}: {status} {body[:200]!r}")
        self.status = status


class Browser:
    """One user's connection to a server on this machine, with their cookies."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.cookies: dict[str, str] = {}
        self._kept: dict[str, float] = {}
        self._max_age = 0

    def get(self, path: str) -> bytes:
        """The content of a page."""
        return self.send("GET", path)

    def fetch(self, path: str) -> bool:
        """Get what a page includes, unless it is still kept; whether a request was needed."""
        if self._kept.get(path, 0.0) > time.monotonic():
            return False
        self.get(path)
        self._kept[path] = time.monotonic() + self._max_age
        return True

    def post_form(self, path: str, **fields: str) -> bytes:
        """Send a form."""
        form = "application/x-www-form-urlencoded"
        return self.send("POST", path, urlencode(fields).encode(), form)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str | None = None,
        **headers: str,
    ) -> bytes:
        """One request; cookies are kept, redirects are not followed.

        Raises:
            Refusal: the status is neither a success nor a redirect.
            OSError: the server cannot be reached, or does not answer in time.
            HTTPException: the response is not HTTP.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type:
            sent["Content-Type"] = content_type
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        except ConnectionError:
            # The server has closed the idle connection: reconnect once, as browsers do.
            self._connection.close()
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
        content = response.read()
        age = MAX_AGE.search(response.headers.get("Cache-Control", ""))
        self._max_age = int(age[1]) if age else 0
        for header in response.headers.get_all("Set-Cookie") or ():
            for name, cookie in SimpleCookie(header).items():
                self.cookies[name] = cookie.value
        if response.status >= 400:
            raise Refusal(f"{method} {path}", response.status, content)
        return content

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._connection.close()


class User(Protocol):
    """A simulated annotator."""

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
        except Exception as error:  # noqa: BLE001 (raised again by the caller, of any type)
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


def wait_until(is_ready: Callable[[], bool], name: str, timeout: float = 60) -> None:
    """Wait until the condition holds.

    Raises:
        TimeoutError: it did not hold within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if is_ready():
            return
        time.sleep(0.1)
    raise TimeoutError(f"{name} is not ready after {timeout} s")


def free_port() -> int:
    """An unused port."""
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
