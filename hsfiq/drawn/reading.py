"""Interpreting a caption from the reference and the text alone, without the target.

The inverse of `hsfiq.drawn.captions`: each phrase stands for the values that it may mean ("has
longer sleeves": every longer length), so a text has one or more possible triplets. If every phrase
is exact, there is one, and its utilities are exactly the true ones.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from hsfiq.drawn.captions import NOUNS, phrases_for
from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Attribute, Garment
from hsfiq.drawn.triplets import DrawnTriplet
from hsfiq.drawn.utility import utility
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUBJECT = re.compile(f"(?:it|the (?:{'|'.join(NOUNS.values())})) ")
_CONJUNCTIONS = ((" and ", ""), (", ", ""), (" with ", "has "))
"""Words between two phrases, and the verb that they replace."""

Meanings = dict[str, tuple[Attribute, frozenset[str]]]
"""The attribute of each phrase, and the values that it may mean."""


def read(text: str, reference: Garment) -> tuple[DrawnTriplet, ...]:
    """Return the triplets that a text, of one or more joined captions, may mean.

    Raises:
        UnreadableInput: the text consists of other phrases, or contradicts itself.
    """
    known = _meanings(reference)
    phrases = _phrases(" and " + text.lower(), known)
    wanted: dict[Attribute, frozenset[str]] = {}
    for phrase in phrases or ():
        attribute, values = known[phrase]
        wanted[attribute] = wanted.get(attribute, values) & values
    if not wanted or not all(wanted.values()) or len(wanted) == len(ATTRIBUTES):
        raise UnreadableInput(
            f"the text {text!r}", "is not a caption of the drawn catalogue for its reference"
        )
    return tuple(
        DrawnTriplet("as read", "val", reference, target, (text, ""), frozenset(wanted))
        for target in _targets(reference, wanted)
    )


def set_utility_as_read(possible: Sequence[DrawnTriplet], garments: Sequence[Garment]) -> float:
    """Return the mean utility of a set's images, each for the triplet that it fits best."""
    best = (max(utility(triplet, garment) for triplet in possible) for garment in garments)
    return sum(best) / len(garments)


@cache
def _meanings(reference: Garment) -> Meanings:
    """Return every phrase that can describe a difference from this reference."""
    values: dict[tuple[str, Attribute], set[str]] = {}
    for name in ATTRIBUTES:
        for value in VALUES[name]:
            if value != reference.value(name):
                for phrase in phrases_for(name, reference, _changed(reference, {name: value})):
                    values.setdefault((phrase, name), set()).add(value)
    return {phrase: (name, frozenset(named)) for (phrase, name), named in values.items()}


def _phrases(text: str, known: Meanings) -> tuple[str, ...] | None:
    """Split a text into known phrases; None if that is impossible."""
    if not text:
        return ()
    for conjunction, verb in _CONJUNCTIONS:
        if not text.startswith(conjunction):
            continue
        rest = verb + text.removeprefix(conjunction)
        if subject := _SUBJECT.match(rest):
            rest = rest[subject.end() :]
        for phrase in known:
            if rest.startswith(phrase):
                following = _phrases(rest.removeprefix(phrase), known)
                if following is not None:
                    return (phrase, *following)
    return None


def _targets(reference: Garment, wanted: Mapping[Attribute, frozenset[str]]) -> list[Garment]:
    """Return the reference with each combination of wanted values."""
    choices = product(*(sorted(values) for values in wanted.values()))
    return [_changed(reference, dict(zip(wanted, chosen, strict=True))) for chosen in choices]


def _changed(garment: Garment, values: Mapping[Attribute, str]) -> Garment:
    return replace(garment, **values)  # type: ignore[arg-type]  # checked by Garment
