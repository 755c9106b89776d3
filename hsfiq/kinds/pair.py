"""`pair`: two sets, a score for each, and the preferred one; its rules are in `answer_rules`."""

from __future__ import annotations

from typing import Any

from hsfiq.errors import Refused
from hsfiq.kinds.kind import Gold, Kind, Rules, ShownAnswer


def expected(text: str, _rules: Rules) -> dict[str, Any]:
    """`1` or `2`: the set that is preferred and has the higher score."""
    if text.strip() not in ("1", "2"):
        raise Refused(f"{text[:40]!r} is not 1 or 2, the better set")
    return {"better": int(text)}


def repeats(first: ShownAnswer, again: ShownAnswer, _rules: Rules) -> bool:
    """The same set is preferred, or neither."""
    return preferred_place(first) == preferred_place(again)


def preferred_place(answer: ShownAnswer) -> int | None:
    preferred: int = answer.values["preferred"]
    return answer.sets[preferred - 1] if preferred else None


GOLD = Gold(
    passes=lambda expected, values: str(values["preferred"]) == expected,
    words=lambda expected: f"set {expected} should win",
)

PAIR = Kind(
    name="pair",
    asks="scores two sets and prefers one",
    n_sets=lambda _: 2,
    expected=expected,
    repeats=repeats,
    gold=GOLD,
    options=frozenset(
        {
            *("design.preference_ties", "design.confirm_contradictions"),
            *("checks.gold", "checks.repeated"),
            *("wording.anchors", "wording.score", "wording.preference", "wording.tie"),
            "wording.irrelevant",
        }
    ),
)
