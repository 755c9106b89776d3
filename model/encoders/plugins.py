"""Retrievers by a specification `NAME:ARGUMENT`, ours and those of installed packages.

A package adds one with an entry point of the group `hsfiq.encoders`, whose object takes the
argument and returns a `hsfiq.model.encoders.protocol.Retriever`; docs/encoders.md has an example.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.libraries import LIBRARIES
from hsfiq.model.encoders.dual.zero_shot import load
from hsfiq.model.encoders.protocol import Retriever
from hsfiq.text import first_few

GROUP: Final = "hsfiq.encoders"
OURS: Final[dict[str, Callable[[str], Retriever]]] = {
    library: partial(load, library) for library in LIBRARIES
}

_SPECIFICATION = re.compile(r"(?P<name>[A-Za-z][\w-]+):(?P<argument>.*)", re.DOTALL)


def is_specification(path: Path) -> bool:
    """Whether this names a retriever, not a checkpoint's file or folder."""
    return not path.exists() and _SPECIFICATION.fullmatch(str(path)) is not None


def build_retriever(specification: str) -> Retriever:
    """The retriever; UnreadableInput if there is none of this name, and as its maker raises."""
    match = _SPECIFICATION.fullmatch(specification)
    if match is None:
        raise UnreadableInput(specification, "is not NAME:ARGUMENT")
    name, argument = match["name"], match["argument"]
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in OURS:
        return OURS[name](argument)
    if name not in installed:
        known = first_few(sorted({*OURS, *installed}))
        what = f"no installed encoder is called {name}"
        raise UnreadableInput(specification, what, f"there are: {known}")
    retriever: Retriever = installed[name].load()(argument)
    return retriever
