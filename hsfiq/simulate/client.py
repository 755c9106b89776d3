"""What the question page's script does, nothing being shown: asking, insisting, moving on."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from hsfiq.simulate.browser import JSON, Browser, Refusal

T = TypeVar("T")

View = dict[str, Any]

PATIENCE = 60.0
"""Seconds for which a server that is silent or busy is asked again."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two tries; each pause is twice the one before."""

SERVER_TIMEOUT = 20.0
"""The page's own: after so many seconds it says that the server does not answer."""


class Stuck(Exception):
    """The study cannot be gone on with, and why."""


class Stopped(Exception):
    """The whole simulation is being ended."""


class Page:
    """The page in one participant's browser."""

    def __init__(self, address: str, stop: threading.Event, patience: float = PATIENCE) -> None:
        """Open nothing yet.

        Args:
            address: of the server.
            stop: ends every wait once it is set.
            patience: seconds for which a server that does not answer is asked again.

        Raises:
            UnreadableInput: the address is none.
        """
        self.browser = Browser(address, SERVER_TIMEOUT)
        self._stop = stop
        self._patience = patience

    def fetch(self, path: str) -> bytes:
        """A page or an image.

        Raises:
            Refusal: the server does not want to.
            Stuck: it does not answer.
        """
        return self._insist(path, lambda: self.browser.get(path))

    def enrol(self, study: str) -> None:
        """Press Begin on the welcome page.

        Raises:
            Refusal: the study takes no more participants.
            Stuck: the server does not answer.
        """
        self._insist("/enrol", lambda: self.browser.post_form("/enrol", study=study))

    def ask(self, path: str, body: dict[str, Any] | None = None) -> View:
        """Ask as the script does: JSON for JSON, and the same again where no answer comes.

        A submit that is sent again has its key with it, so it is stored once.

        Raises:
            Refusal: the server has understood and does not want to.
            Stuck: it does not answer, or with no JSON object.
        """

        def send() -> View:
            if body is None:
                received = self.browser.send("GET", path, Accept=JSON)
            else:
                received = self.browser.send("POST", path, json.dumps(body).encode(), JSON)
            value = json.loads(received)
            if not isinstance(value, dict):
                raise Stuck(f"{path} answers with no JSON object")
            return value

        return self._insist(path, send)

    def open(self) -> View:
        """What the page gets when it is loaded: the study's words, and the first view.

        Raises:
            Refusal: the cookie is not known.
            Stuck: the server does not answer, or has no such page.
        """
        dependencies = self.ask("/study/config").get("dependencies") or [{}]
        body = {"fn_index": dependencies[0].get("id"), "data": [], "session_hash": "simulated"}
        values = self.ask("/study/gradio_api/run/predict", body).get("data") or [{}]
        opening = values[0]
        if not isinstance(opening, dict) or "view" not in opening:
            raise Stuck("the study's page cannot be opened")
        return opening

    def wait(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            Stopped: the simulation is being ended.
        """
        if self._stop.wait(max(0.0, seconds)):
            raise Stopped

    def _insist(self, path: str, send: Callable[[], T]) -> T:
        """Send until the server has answered: a broken one is no answer, nor is a busy one."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            self.wait(0)
            try:
                return send()
            except Refusal as refusal:
                if refusal.status < 500:
                    raise
                why = f"{path}: {refusal.status}"
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.browser.close()
                why = f"{path}: {type(error).__name__}: {error}"
            if time.monotonic() - begun + pause > self._patience:
                raise Stuck(f"the server does not answer ({why})")
            self.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
