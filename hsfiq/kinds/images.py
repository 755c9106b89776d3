"""`images`: which images of one set fit, on a scale of 2 to 5 levels from 0."""

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
    whole_numbers,
)


def read(given: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The level of each image, in the order in which the images were shown."""
    require_keys(given, "relevance")
    levels = given["relevance"]
    if not isinstance(levels, list) or len(levels) != rules.k:
        raise Refused(f"judgement: relevance must have the levels of {rules.k} images")
    return {
        "relevance": [
            require_whole_number("the level of an image", level, 0, rules.levels - 1)
            for level in levels
        ]
    }


def expected(text: str, rules: Rules) -> dict[str, Any]:
    """`1 3 4`: the images that fit, counted from the left; the others do not fit at all."""
    return {"fitting": sorted(whole_numbers(text, rules.k))}


def summary(judgement: Mapping[str, Any]) -> str:
    return "images: " + " ".join(map(str, judgement["relevance"]))


def repeats(first: ShownAnswer, again: ShownAnswer, rules: Rules) -> bool:
    """The levels of an image differ, on average, by a quarter of the scale at most."""
    pairs = list(zip(levels_by_rank(first), levels_by_rank(again), strict=True))
    differences = sum(abs(level - other) for level, other in pairs)
    return differences <= SAME_WITHIN * (rules.levels - 1) * len(pairs)


def levels_by_rank(answer: ShownAnswer) -> list[int]:
    levels: list[int] = answer.values["relevance"]
    if answer.images is None:
        return levels
    return [level for _, level in sorted(zip(answer.images, levels, strict=True))]


def finds_target(expected: str, values: Mapping[str, Any]) -> bool:
    """The planted target, the image with this number, has a higher level than every other one."""
    levels = list(values["relevance"])
    target = levels.pop(int(expected) - 1)
    return bool(target > max(levels, default=0))


GOLD = Gold(
    passes=finds_target,
    words=lambda expected: f"image {expected}, the target, should fit better than all others",
)

IMAGES = Kind(
    name="images",
    asks="says which images of one set fit",
    n_sets=lambda _: 1,
    options=frozenset(
        {
            *("design.levels", "checks.gold", "checks.repeated"),
            *("wording.levels", "wording.image", "wording.irrelevant"),
        }
    ),
    expected=expected,
    repeats=repeats,
    gold=GOLD,
    read=read,
    summary=summary,
)
