"""The address at which browsers reach the server, which a proxy may hide from it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from hsfiq.errors import UnreadableInput

VARIABLE = "HSFIQ_PUBLIC_URL"
OPTION = "--public-url"

USUAL_PORTS = {"http": 80, "https": 443}

PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """Its parts; `host` as a browser's Host header has it, `path` without a final slash."""

    scheme: str
    host: str
    path: str

    @property
    def origin(self) -> str:
        """What browsers send as Origin."""
        return f"{self.scheme}://{self.host}"

    def __str__(self) -> str:
        return f"{self.origin}{self.path}/"


def public_url(chosen: str | None, option: str = OPTION) -> PublicUrl | None:
    """The address that was chosen, else the variable's, None if there is neither."""
    if chosen is not None:
        return parsed_url(chosen, option)
    inherited = os.environ.get(VARIABLE)
    return parsed_url(inherited, VARIABLE) if inherited else None


def parsed_url(text: str, where: str) -> PublicUrl:
    """Read an address like https://study.example.org/hsfiq/; `UnreadableInput` if it is none."""
    remedy = "give an address such as https://study.example.org or https://example.org/hsfiq"
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise UnreadableInput(where, f"{text!r} is not an address ({error})", remedy) from error
    path = parts.path.rstrip("/")
    if parts.scheme not in USUAL_PORTS or not parts.hostname:
        raise UnreadableInput(where, f"{text!r} is not an http(s) address", remedy)
    if parts.username is not None or parts.query or parts.fragment or not PATH.fullmatch(path):
        raise UnreadableInput(where, f"{text!r} has more than scheme, host, port and path", remedy)
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_usual = port is None or port == USUAL_PORTS[parts.scheme]
    return PublicUrl(parts.scheme, name if is_usual else f"{name}:{port}", path)


def is_local(url: str) -> bool:
    """Whether an address leads to this machine only."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
