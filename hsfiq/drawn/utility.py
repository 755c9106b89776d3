"""The utility of an image for a query: the ground truth by which simulated annotators judge.

It comes from the attributes alone, never from a scorer:

    utility = TEXT_SHARE * (mentioned attributes as in the target)
            + (1 - TEXT_SHARE) * (the others as in the reference)

each part the mean of the attributes' likenesses, weighted by `WEIGHTS`. It lies in 0 to 1. Where
the captions leave a difference out, the labelled target is not the best image: as in the real sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Attribute, Garment

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hsfiq.drawn.triplets import DrawnTriplet

TEXT_SHARE = 0.5
"""The weight of following the text; the rest is keeping the reference."""

WEIGHTS: dict[Attribute, float] = {
    "colour": 0.30,
    "pattern": 0.25,
    "sleeve": 0.20,
    "logo": 0.15,
    "neckline": 0.10,
}
"""The weights of the attributes."""

NEARLY = 0.5
"""The likeness of two values that are not the same but near: adjoining sleeves, kindred colours."""

_KINDRED_COLOURS = (frozenset({"red", "pink"}), frozenset({"black", "grey"}))


def utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return an image's utility for a triplet's text, 0 to 1. As a metric: the oracle."""
    text, kept = text_utility(triplet, garment), kept_utility(triplet, garment)
    return TEXT_SHARE * text + (1 - TEXT_SHARE) * kept


def set_utility(triplet: DrawnTriplet, garments: Sequence[Garment]) -> float:
    """Return a retrieved set's utility: the mean over its images, 0 to 1."""
    return sum(utility(triplet, garment) for garment in garments) / len(garments)


def text_utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return how well an image follows the text, 0 to 1. As a metric: text-only."""
    return _mean_likeness(triplet.target, garment, triplet.mentioned)


def kept_utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return how well an image keeps the attributes that the text does not mention, 0 to 1."""
    silent = [name for name in ATTRIBUTES if name not in triplet.mentioned]
    return _mean_likeness(triplet.reference, garment, silent)


def reference_likeness(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return an image's similarity to the reference, 0 to 1. As a metric: image-only."""
    return _mean_likeness(triplet.reference, garment, ATTRIBUTES)


def _mean_likeness(wanted: Garment, garment: Garment, names: Collection[Attribute]) -> float:
    # In the order of ATTRIBUTES: a set's order, and so the sum's last bit, changes by process.
    ordered = [name for name in ATTRIBUTES if name in names]
    total = sum(WEIGHTS[name] for name in ordered)
    alike = sum(_WORTH[name, wanted.value(name), garment.value(name)] for name in ordered)
    return alike / total


def _likeness(attribute: Attribute, here: str, there: str) -> float:
    if here == there:
        return 1.0
    if attribute == "sleeve":
        lengths = VALUES["sleeve"]
        adjoining = abs(lengths.index(here) - lengths.index(there)) == 1
        return NEARLY if adjoining else 0.0
    if attribute == "colour":
        return NEARLY if frozenset({here, there}) in _KINDRED_COLOURS else 0.0
    return 0.0


_WORTH = {
    (name, here, there): WEIGHTS[name] * _likeness(name, here, there)
    for name in ATTRIBUTES
    for here in VALUES[name]
    for there in VALUES[name]
}
"""Every weighted likeness, looked up: a study's ranked lists need millions of them."""
