"""Reading a caption as somebody does who knows the reference and the text, and no target.

The inverse of `hsfiq.drawn.captions`: each phrase of a text stands for the values that could have
been meant by it ("has longer sleeves": every longer length), so a text has one or more possible
triplets. Where every phrase is exact there is one, and what an image is worth is the true utility,
to the last bit.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from hsfiq.drawn.captions import NOUNS, ways_to_say
from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Attribute, Garment
from hsfiq.drawn.triplets import DrawnTriplet
from hsfiq.drawn.utility import utility
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUBJECT = re.compile(f"(?:it|the (?:{'|'.join(NOUNS.values())})) ")
_JOINTS = ((" and ", ""), (", ", ""), (" with ", "has "))
"""What joins two phrases, and the verb that it has swallowed."""

Meanings = dict[str, tuple[Attribute, frozenset[str]]]
"""By phrase: the attribute that it speaks of, and the values that it may mean."""


def read(text: str, reference: Garment) -> tuple[DrawnTriplet, ...]:
    """The triplets that may be meant by a text beside its reference image.

    Args:
        text: one or more captions of the catalogue, joined.
        reference: the garment that the reference image shows.

    Raises:
        UnreadableInput: the text is none of the catalogue's.
    """
    known = _meanings(reference)
    said = _phrases(" and " + text.lower(), known)
    wanted: dict[Attribute, frozenset[str]] = {}
    for phrase in said or ():
        attribute, values = known[phrase]
        wanted[attribute] = wanted.get(attribute, values) & values
    if not wanted or not all(wanted.values()) or len(wanted) == len(ATTRIBUTES):
        raise UnreadableInput(
            f"the text {text!r}", "is none of the drawn catalogue's captions for its reference"
        )
    return tuple(
        DrawnTriplet("as read", "val", reference, target, (text, ""), frozenset(wanted))
        for target in _targets(reference, wanted)
    )


def set_utility_as_read(possible: Sequence[DrawnTriplet], garments: Sequence[Garment]) -> float:
    """What a retrieved set is worth to a reader, 0 to 1: its mean, each image read kindly.

    An image is worth what it is worth for the one of the possible triplets that it fits best.
    """
    worth = (max(utility(triplet, garment) for triplet in possible) for garment in garments)
    return sum(worth) / len(garments)


@cache
def _meanings(reference: Garment) -> Meanings:
    """Every phrase that may be said beside this reference."""
    values: dict[tuple[str, Attribute], set[str]] = {}
    for name in ATTRIBUTES:
        for value in VALUES[name]:
            if value != reference.value(name):
                for phrase in ways_to_say(name, reference, _changed(reference, {name: value})):
                    values.setdefault((phrase, name), set()).add(value)
    return {phrase: (name, frozenset(meant)) for (phrase, name), meant in values.items()}


def _phrases(text: str, known: Meanings) -> tuple[str, ...] | None:
    """The phrases of a text, each behind its joint; None where they are not the known ones."""
    if not text:
        return ()
    for joint, verb in _JOINTS:
        if not text.startswith(joint):
            continue
        rest = verb + text.removeprefix(joint)
        rest = _SUBJECT.sub("", rest, count=1) if _SUBJECT.match(rest) else rest
        for phrase in known:
            if rest.startswith(phrase):
                following = _phrases(rest.removeprefix(phrase), known)
                if following is not None:
                    return (phrase, *following)
    return None


def _targets(reference: Garment, wanted: Mapping[Attribute, frozenset[str]]) -> list[Garment]:
    """The reference with each combination of wanted values."""
    choices = product(*(sorted(values) for values in wanted.values()))
    return [_changed(reference, dict(zip(wanted, chosen, strict=True))) for chosen in choices]


def _changed(garment: Garment, values: Mapping[Attribute, str]) -> Garment:
    return replace(garment, **values)  # type: ignore[arg-type]  # checked by Garment
