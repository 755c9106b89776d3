"""Reading a caption with the reference and the text alone, without the target.

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
"""Words that join two phrases, and the verb that they replace."""

Meanings = dict[str, tuple[Attribute, frozenset[str]]]
"""By phrase: its attribute, and the values that it may mean."""


def read(text: str, reference: Garment) -> tuple[DrawnTriplet, ...]:
    """Return the triplets that a text beside its reference image may mean.

    Args:
        text: one or more captions of the catalogue, joined.
        reference: the garment that the reference image shows.

    Raises:
        UnreadableInput: the text is none of the catalogue's.
    """
    known = _meanings(reference)
    phrases = _phrases(" and " + text.lower(), known)
    wanted: dict[Attribute, frozenset[str]] = {}
    for phrase in phrases or ():
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
    """Return a retrieved set's utility to a reader, 0 to 1: the mean over its images.

    An image's utility is that for the possible triplet which it fits best.
    """
    worth = (max(utility(triplet, garment) for triplet in possible) for garment in garments)
    return sum(worth) / len(garments)


@cache
def _meanings(reference: Garment) -> Meanings:
    """Return every phrase that can describe a difference from this reference."""
    values: dict[tuple[str, Attribute], set[str]] = {}
    for name in ATTRIBUTES:
        for value in VALUES[name]:
            if value != reference.value(name):
                for phrase in ways_to_say(name, reference, _changed(reference, {name: value})):
                    values.setdefault((phrase, name), set()).add(value)
    return {phrase: (name, frozenset(meant)) for (phrase, name), meant in values.items()}


def _phrases(text: str, known: Meanings) -> tuple[str, ...] | None:
    """Split a text into known phrases; None if it has others."""
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
    """Yield the reference with each combination of wanted values."""
    choices = product(*(sorted(values) for values in wanted.values()))
    return [_changed(reference, dict(zip(wanted, chosen, strict=True))) for chosen in choices]


def _changed(garment: Garment, values: Mapping[Attribute, str]) -> Garment:
    return replace(garment, **values)  # type: ignore[arg-type]  # checked by Garment
