"""The ways into a study: its welcome page, which says for whom it is, and personal links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

from hsfiq.errors import UnreadableInput
from hsfiq.simulate.browser import parts_of

_LINK = re.compile(r"(.*)(/start/[0-9A-Za-z_-]{1,64})/?")
_MEND = "only what `hsfiq study create --simulated` or `hsfiq demo --simulated` made is answered"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a participant goes: a server, and the path of a personal link or None."""

    address: str
    link: str | None = None


def destination_of(url: str) -> Destination:
    """Tell a personal link from the address of a server.

    Raises:
        UnreadableInput: it is no http(s) address.
    """
    found = _LINK.fullmatch(url)
    destination = Destination(found[1], found[2]) if found else Destination(url.rstrip("/"))
    parts_of(destination.address)
    return destination


def study_to_join(page: bytes, address: str) -> str:
    """The number of the one study that a welcome page offers to simulated annotators.

    Raises:
        UnreadableInput: there is none, or there are several.
    """
    welcome = _read(page)
    if len(welcome.for_simulation) == 1:
        return welcome.for_simulation[0]
    if welcome.for_simulation:
        several = f"{len(welcome.for_simulation)} studies are open to simulated annotators"
        raise UnreadableInput(address, several, "leave one open, or give personal links")
    if welcome.for_people:
        raise UnreadableInput(address, "the study is there for people", _MEND)
    raise UnreadableInput(address, "no study is open to all", _MEND)


def require_simulated(page: bytes, address: str) -> None:
    """Raise `UnreadableInput` unless the participant's welcome page says that all is simulated."""
    if not _read(page).is_marked:
        raise UnreadableInput(address, "the study is there for people", _MEND)


class _Welcome(HTMLParser):
    """What a welcome page offers: each study has a section and in it, where simulated, a mark."""

    def __init__(self) -> None:
        super().__init__()
        self.is_marked = False
        self.for_simulation: list[str] = []
        self.for_people: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        values = dict(attrs)
        if tag == "section":
            self.is_marked = False
        if values.get("data-origin") == "simulated":
            self.is_marked = True
        if tag == "input" and values.get("name") == "study":
            offered = self.for_simulation if self.is_marked else self.for_people
            offered.append(values.get("value") or "")


def _read(page: bytes) -> _Welcome:
    welcome = _Welcome()
    welcome.feed(page.decode("utf-8", "replace"))
    return welcome
