"""`search`: a search of several turns with a live retriever, and how it went in the end.

The judgement is given after the search has stopped; the turns have tables of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from hsfiq.errors import Refused
from hsfiq.kinds.kind import Kind, Rules, ShownAnswer, require_keys, require_whole_number

POINTS = 5
"""Of the scales of satisfaction, success and ease."""

WHYS = ("enough", "gave-up", "technical")
"""Why a participant stopped without declaring an image."""


def read(given: Mapping[str, Any], _rules: Rules) -> dict[str, Any]:
    require_keys(given, "success", "ease", "would_go_on", "why")
    scores = {
        name: require_whole_number(name, given[name], 1, POINTS) for name in ("success", "ease")
    }
    if not isinstance(given["would_go_on"], bool):
        raise Refused("would_go_on is neither true nor false")
    why = given["why"]
    if why is not None and why not in WHYS:
        raise Refused(f"why is not one of {', '.join(WHYS)}")
    return {**scores, "would_go_on": given["would_go_on"], "why": why}


def expected(_text: str, _rules: Rules) -> NoReturn:
    raise Refused("a search has no practice question")


def summary(judgement: Mapping[str, Any]) -> str:
    return f"success {judgement['success']}, ease {judgement['ease']}"


def repeats(first: ShownAnswer, again: ShownAnswer, _rules: Rules) -> bool:
    return bool(first.values["success"] == again.values["success"])


SEARCH = Kind(
    name="search",
    asks="searches over several turns",
    n_sets=lambda _options: 0,
    options=frozenset(),
    expected=expected,
    repeats=repeats,
    read=read,
    summary=summary,
    needs_lists=False,
    n_live=1,
)
