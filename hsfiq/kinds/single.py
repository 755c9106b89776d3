"""`single`: one set and its score; no second system is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hsfiq.errors import Refused
from hsfiq.kinds.kind import (
    SAME_WITHIN,
    Gold,
    Kind,
    Rules,
    ShownAnswer,
    require_keys,
    require_whole_number,
)


def read(given: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    require_keys(given, "score")
    return {"score": require_whole_number("the score", given["score"], 1, rules.points)}


def expected(text: str, rules: Rules) -> dict[str, Any]:
    """`4` or `4-5`: the lowest and the highest score that is right."""
    lowest, _, highest = text.partition("-")
    if not all(part.strip().isdecimal() for part in (lowest, highest or lowest)):
        raise Refused(f"{text[:40]!r} is not a score such as 4, or a range of scores such as 4-5")
    scores = [
        require_whole_number("a score", int(part), 1, rules.points)
        for part in (lowest, highest or lowest)
    ]
    if scores != sorted(scores):
        raise Refused(f"{text[:40]!r} begins with the higher score")
    return {"lowest": scores[0], "highest": scores[1]}


def summary(judgement: Mapping[str, Any]) -> str:
    return f"score {judgement['score']}"


def repeats(first: ShownAnswer, again: ShownAnswer, rules: Rules) -> bool:
    """The scores differ by a quarter of the scale at most: of five points, by one."""
    difference = abs(first.values["score"] - again.values["score"])
    return bool(difference <= SAME_WITHIN * (rules.points - 1))


GOLD = Gold(
    passes=lambda expected, values: values["score"] <= int(expected),
    words=lambda expected: f"random images: a score of {expected} or less is right",
)

SINGLE = Kind(
    name="single",
    asks="scores one set",
    n_sets=lambda _: 1,
    options=frozenset(
        {
            *("checks.gold", "checks.repeated"),
            *("wording.anchors", "wording.score", "wording.irrelevant"),
        }
    ),
    expected=expected,
    repeats=repeats,
    gold=GOLD,
    read=read,
    summary=summary,
)
