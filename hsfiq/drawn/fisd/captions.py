"""Captions of FISD's aspects on drawn scenes, and their exact reading.

A clause names one attribute and its new value, and all else stays as in the reference. So a caption
has one reading, which follows from the reference and the text alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hsfiq.drawn.captions import NOUNS
from hsfiq.drawn.fisd.scenes import SCENE_ATTRIBUTES, SCENE_VALUES, Scene, SceneAttribute
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from hsfiq.readers.fisd import Aspect

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip

NAMES: dict[SceneAttribute, dict[str, str]] = {
    "colour": {value: value for value in SCENE_VALUES["colour"]},
    "sleeve": {
        "none": "no sleeves",
        "short": "short sleeves",
        "three-quarter": "three quarter sleeves",
        "long": "long sleeves",
    },
    "pattern": {
        "plain": "a plain fabric",
        "striped": "stripes",
        "checked": "checks",
        "dotted": "polka dots",
        "floral": "flowers",
    },
    "neckline": {"round": "a round neck", "v": "a v neck", "collar": "a collar"},
    "logo": {"none": "no logo", "star": "a star", "circle": "a circle", "text": "lettering"},
    "badges": {
        str(number): f"{word} badge{'' if number == 1 else 's'}"
        for number, word in enumerate(_NUMBERS)
    },
    "background": {
        "studio": "a plain wall",
        "beach": "a beach",
        "meadow": "a green meadow",
        "brick": "a brick wall",
        "night": "a night sky",
        "snow": "a snowy hill",
    },
}

ABSENT: dict[SceneAttribute, str] = {
    "sleeve": "none", "pattern": "plain", "logo": "none", "badges": "0"
}  # fmt: skip
"""The values that mean that something is not there."""

_GENERAL: dict[SceneAttribute, str] = {"sleeve": "sleeves", "badges": "badges"}
"""What is said to be absent, where that does not depend on what was there."""

_VERBS: dict[SceneAttribute, str] = {"colour": "is", "background": "is in front of"}

_SENTENCES = re.compile(r"(?:it|the (?:" + "|".join(NOUNS.values()) + r")) ")
_SEPARATORS = re.compile(r"\. |, | and ")


def clauses(attribute: SceneAttribute, before: str, after: str) -> dict[Aspect, tuple[str, ...]]:
    """The wordings of a difference, by the aspect that they belong to."""
    names, verb = NAMES[attribute], _VERBS.get(attribute, "has")
    both = (
        f"{verb} {names[after]} instead of {names[before]}",
        f"{verb} {names[after]} rather than {names[before]}",
    )
    absent = ABSENT.get(attribute)
    if after == absent:
        thing = _GENERAL.get(attribute, names[before])
        return {
            "negation": (
                f"has no {thing.removeprefix('a ')}",
                f"is without {thing}",
                f"does not have {thing}",
            ),
            "complex": both,
        }
    if before == absent:
        thing = names[after]
        return {
            "addition": (f"has {thing} added", f"now also has {thing}", f"gains {thing}"),
            "complex": both,
        }
    aspects: dict[SceneAttribute, Aspect] = {"badges": "cardinality", "background": "background"}
    return {aspects.get(attribute, "change"): both, "complex": both}


def write_caption(
    rng: Random, aspect: Aspect, reference: Scene, changes: Sequence[tuple[SceneAttribute, str]]
) -> str:
    """Say all changes: in one sentence, or from three on in two."""
    phrases = [
        rng.choice(clauses(attribute, reference.value(attribute), value)[aspect])
        for attribute, value in changes
    ]
    subject = f"the {NOUNS[reference.garment.category]} "
    if len(phrases) < 3:
        return rng.choice(["", subject, "it "]) + " and ".join(phrases)
    half = len(phrases) // 2 + 1
    return f"{subject}{', '.join(phrases[:half])}. it {' and '.join(phrases[half:])}"


def read_caption(caption: str, reference: Scene) -> Scene:
    """The scene that a caption asks for; `UnreadableInput` for a text of other clauses."""
    known = {
        clause: (attribute, value)
        for attribute in SCENE_ATTRIBUTES
        for value in SCENE_VALUES[attribute]
        if value != reference.value(attribute)
        for wordings in clauses(attribute, reference.value(attribute), value).values()
        for clause in wordings
    }
    wanted = reference
    for part in _SEPARATORS.split(caption):
        subject = _SENTENCES.match(part)
        clause = part[subject.end() :] if subject else part
        if clause not in known:
            raise UnreadableInput(f"the text {caption!r}", "is no caption of its reference")
        wanted = wanted.changed(*known[clause])
    return wanted
