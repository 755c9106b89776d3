"""How simulated participants enter a study: by its welcome page or by personal links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

from hsfiq.errors import UnreadableInput
from hsfiq.simulate.client import require_address

_LINK = re.compile(r"(.*)(/start/[0-9A-Za-z_-]{1,64})/?")
_FOR_PEOPLE = "the study is for people"
_REMEDY = "make one with `hsfiq study create --simulated` or `hsfiq demo --simulated`"


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
    raise UnreadableInput(address, "no study is open to all", _REMEDY)


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
