"""The HTTP client of one simulated participant: it requests what the page's scripts request."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx

from hsfiq.atomic_files import write_whole
from hsfiq.collect import protocol
from hsfiq.errors import UnreadableInput
from hsfiq.live.client import certificates

T = TypeVar("T")

RETRY_FOR = 60.0
"""Seconds for which requests are repeated while the server does not answer."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two attempts; each pause is twice the one before."""

PROOF = re.compile(r'name="proof" value="([^"]+)"')
"""In the welcome page's forms: what shows that they are sent from it."""

TIMEOUT = 20.0
"""Seconds after which a request fails, as in the page's scripts."""


class RefusedRequest(Exception):
    """The server answered with an error status; `reason` is its message in one line."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.reason = response.reason_phrase or "refused"
        with suppress(ValueError, KeyError, TypeError):  # a page for people has no message
            self.reason = str(response.json()["error"])
        super().__init__(f"{self.status} {self.reason}")


class CannotContinue(Exception):
    """The study cannot be continued, and why."""


class Cancelled(Exception):
    """The whole simulation is being ended."""


class StudyClient:
    """The connection of one participant, with their cookies."""

    def __init__(self, address: str, cancel: threading.Event, retry_for: float = RETRY_FOR) -> None:
        """Prepare a client; nothing is requested yet.

        Every wait ends when `cancel` is set. Requests that the server does not answer are
        repeated for `retry_for` seconds.
        """
        require_address(address)
        self._http = httpx.Client(
            base_url=address, timeout=TIMEOUT, trust_env=False, verify=certificates()
        )
        self._cancel = cancel
        self._retry_for = retry_for

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self._http.cookies.jar}

    @cookies.setter
    def cookies(self, cookies: dict[str, str]) -> None:
        self._http.cookies = httpx.Cookies(cookies)

    def close(self) -> None:
        self._http.close()

    # ------------------------------------------------------------------------------ requests
    #
    # Each raises RefusedRequest if the server refuses it, and CannotContinue if it does not answer.

    def get(self, path: str) -> bytes:
        return self._request("GET", path).content

    def enrol(self, study: str) -> None:
        """Press Begin on the welcome page."""
        page = self._request("GET", "/").text
        proof = PROOF.search(page)
        form = {"study": study, "proof": proof[1] if proof else ""}
        self._request("POST", "/enrol", data=form)

    def open(self) -> protocol.Opening:
        """What the page shows when it is loaded."""
        return cast("protocol.Opening", self._json("GET", "/opening"))

    def current_view(self) -> protocol.View:
        return cast("protocol.View", self._json("GET", "/question"))

    def consent(self) -> protocol.View:
        return cast("protocol.View", self._json("POST", "/consent", json={"agrees": True}))

    def finish_practice(self) -> protocol.View:
        return cast("protocol.View", self._json("POST", "/practice", json={}))

    def submit(
        self, payload: protocol.SubmitPayload | protocol.SkipPayload
    ) -> protocol.SubmitReply:
        """Send an answer. A repeated request has the same submit key, so it is stored once."""
        return cast("protocol.SubmitReply", self._json("POST", "/submit", json=payload))

    def search(self, action: str, payload: dict[str, Any]) -> protocol.View:
        """Send a step of a search: `turn`, `list` or `stop`."""
        return cast("protocol.View", self._json("POST", f"/search/{action}", json=payload))

    def check(self, payload: protocol.CheckPayload) -> protocol.CheckReply:
        return cast("protocol.CheckReply", self._json("POST", "/check", json=payload))

    def answer_questionnaire(self, payload: protocol.QuestionnairePayload) -> protocol.View:
        return cast("protocol.View", self._json("POST", "/questionnaire", json=payload))

    def wait(self, seconds: float) -> None:
        """Wait; `Cancelled` if the simulation is being ended."""
        if self._cancel.wait(max(0.0, seconds)):
            raise Cancelled

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        headers = {"Accept": "application/json"}
        value = self._retry(path, lambda: self._send(method, path, headers, options).json())
        if not isinstance(value, dict):
            raise CannotContinue(f"{path} does not return a JSON object")
        return value

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._retry(path, lambda: self._send(method, path, {}, options))

    def _send(
        self, method: str, path: str, headers: dict[str, str], options: dict[str, Any]
    ) -> httpx.Response:
        response = self._http.request(method, path, headers=headers, **options)
        if response.is_error:
            raise RefusedRequest(response)
        return response

    def _retry(self, path: str, send: Callable[[], T]) -> T:
        """Send until the server answers; errors of the server or the connection do not count."""
        begun, pause = time.monotonic(), FIRST_PAUSE
        while True:
            self.wait(0)
            try:
                return send()
            except RefusedRequest as refusal:
                if refusal.status < 500:
                    raise
                why = f"{path}: {refusal.status}"
            except (httpx.HTTPError, ValueError) as error:
                why = f"{path}: {error or type(error).__name__}"
            if time.monotonic() - begun + pause > self._retry_for:
                raise CannotContinue(f"the server does not answer ({why})")
            self.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def require_address(address: str) -> None:
    """Raise `UnreadableInput` unless this is an http(s) address."""
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not match, or a port that is not a number
        is_valid = False
    if not is_valid:
        raise UnreadableInput(
            address, "is not an http(s) address", "give one such as http://127.0.0.1:7860"
        )


# How simulated participants enter a study: by its welcome page or by personal links.

_LINK = re.compile(r"(.*)(/start/[0-9A-Za-z_-]{1,64})/?")
_FOR_PEOPLE = "the study is for people and takes no simulated answers"
_REMEDY = "try it with `hsfiq rehearse`, or make one with `hsfiq study create --simulated`"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a participant goes: a server, and the path of a personal link or None."""

    address: str
    link: str | None = None


def destination_of(url: str) -> Destination:
    """The destination of a personal link or of a server's address; else `UnreadableInput`."""
    match = _LINK.fullmatch(url)
    destination = Destination(match[1], match[2]) if match else Destination(url.rstrip("/"))
    require_address(destination.address)
    return destination


def study_to_join(page: bytes, address: str) -> str:
    """The id of the only study that a welcome page offers to simulated annotators."""
    welcome = _read(page)
    if len(welcome.for_simulation) == 1:
        return welcome.for_simulation[0]
    if welcome.for_simulation:
        several = f"{len(welcome.for_simulation)} studies are open to simulated annotators"
        raise UnreadableInput(address, several, "leave one open, or give personal links")
    if welcome.for_people:
        raise UnreadableInput(address, _FOR_PEOPLE, _REMEDY)
    raise UnreadableInput(address, "no simulated study is open to all", _REMEDY)


def require_simulated(page: bytes, address: str) -> None:
    """Raise `UnreadableInput` unless the participant's welcome page is of a simulated study."""
    if not _read(page).is_simulated:
        raise UnreadableInput(address, _FOR_PEOPLE, _REMEDY)


class _WelcomeParser(HTMLParser):
    """Reads a welcome page: each study has a section, in which simulated ones are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.is_simulated = False
        self.for_simulation: list[str] = []
        self.for_people: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "section":
            self.is_simulated = False
        if values.get("data-origin") == "simulated":
            self.is_simulated = True
        if tag == "input" and values.get("name") == "study":
            offered = self.for_simulation if self.is_simulated else self.for_people
            offered.append(values.get("value") or "")


def _read(page: bytes) -> _WelcomeParser:
    parser = _WelcomeParser()
    parser.feed(page.decode("utf-8", "replace"))
    return parser


# The cookies of simulated participants in a file, so that a later run can continue.


class Sessions:
    """A file of cookies by annotator, for one address and one seed."""

    def __init__(self, path: Path, address: str, seed: int) -> None:
        """Read the file, if it exists; `UnreadableInput` if it is not of this address and seed."""
        self._path = path
        self._lock = Lock()
        self._cookies: dict[str, dict[str, str]] = {}
        self._facts = {"address": address, "seed": seed}
        if path.exists():
            self._cookies = self._read()

    def cookies_of(self, name: str) -> dict[str, str]:
        return dict(self._cookies.get(name, {}))

    def keep(self, name: str, cookies: Mapping[str, str]) -> None:
        with self._lock:
            self._cookies[name] = dict(cookies)
            content = self._facts | {"cookies": self._cookies}
            write_whole(self._path, (json.dumps(content, indent=2) + "\n").encode())

    def _read(self) -> dict[str, dict[str, str]]:
        where = str(self._path)
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            facts = {key: content[key] for key in self._facts}
            cookies = {name: dict(values) for name, values in content["cookies"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableInput(where, "is not a file of sessions", "choose another") from error
        if facts != self._facts:
            raise UnreadableInput(
                where,
                f"belongs to {facts['address']} and seed {facts['seed']}",
                "give the same address and --seed, or choose another file",
            )
        return cookies
