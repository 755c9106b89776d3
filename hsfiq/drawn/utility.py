"""The utility of an image for a query: the ground truth by which simulated annotators judge.

It is computed from the attributes, never by a scorer:

    utility = TEXT_SHARE * (mentioned attributes as in the target)
            + (1 - TEXT_SHARE) * (the others as in the reference)

Each part is the mean similarity of the attributes, weighted by `WEIGHTS`, so the utility is from 0
to 1. If the captions omit a difference, the labelled target is not the best image, as in FashionIQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Attribute, Garment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hsfiq.drawn.triplets import DrawnTriplet

    Metric = Callable[[Garment], float]

TEXT_SHARE = 0.5
"""The weight of the mentioned attributes; the rest is that of the others."""

WEIGHTS: dict[Attribute, float] = {
    "colour": 0.30,
    "pattern": 0.25,
    "sleeve": 0.20,
    "logo": 0.15,
    "neckline": 0.10,
}

PARTIAL_SIMILARITY = 0.5
"""The similarity of neighbouring sleeve lengths and of similar colours."""

_SIMILAR_COLOURS = (frozenset({"red", "pink"}), frozenset({"black", "grey"}))


def utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return an image's utility for a triplet's text, 0 to 1: as a metric, the oracle."""
    text, kept = text_utility(triplet, garment), kept_utility(triplet, garment)
    return TEXT_SHARE * text + (1 - TEXT_SHARE) * kept


def set_utility(triplet: DrawnTriplet, garments: Sequence[Garment]) -> float:
    """Return a retrieved set's utility: the mean over its images, 0 to 1."""
    return sum(utility(triplet, garment) for garment in garments) / len(garments)


def text_utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return how well an image follows the text, 0 to 1: as a metric, text-only."""
    return text_metric(triplet)(garment)


def kept_utility(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return how well an image keeps the attributes that the text does not mention, 0 to 1."""
    return kept_metric(triplet)(garment)


def reference_similarity(triplet: DrawnTriplet, garment: Garment) -> float:
    """Return an image's similarity to the reference, 0 to 1: as a metric, image-only."""
    return reference_metric(triplet)(garment)


def text_metric(triplet: DrawnTriplet) -> Metric:
    """Return `text_utility` for one triplet and many images."""
    return _mean_similarity(triplet.target, triplet.mentioned)


def kept_metric(triplet: DrawnTriplet) -> Metric:
    """Return `kept_utility` for one triplet and many images."""
    others = [name for name in ATTRIBUTES if name not in triplet.mentioned]
    return _mean_similarity(triplet.reference, others)


def reference_metric(triplet: DrawnTriplet) -> Metric:
    """Return `reference_similarity` for one triplet and many images."""
    return _mean_similarity(triplet.reference, ATTRIBUTES)


def _mean_similarity(wanted: Garment, names: Collection[Attribute]) -> Metric:
    # The order of a set, and so the last bit of a sum over it, differs between processes.
    ordered = [name for name in ATTRIBUTES if name in names]
    total = sum(WEIGHTS[name] for name in ordered)
    weighted = [(name, _WEIGHTED[name][wanted.value(name)]) for name in ordered]

    def mean(garment: Garment) -> float:
        return sum([of_value[getattr(garment, name)] for name, of_value in weighted]) / total

    return mean


def _similarity(attribute: Attribute, value: str, other: str) -> float:
    if value == other:
        return 1.0
    if attribute == "sleeve":
        lengths = VALUES["sleeve"]
        if abs(lengths.index(value) - lengths.index(other)) == 1:
            return PARTIAL_SIMILARITY
    if attribute == "colour" and {value, other} in _SIMILAR_COLOURS:
        return PARTIAL_SIMILARITY
    return 0.0


_WEIGHTED = {
    name: {
        value: {other: WEIGHTS[name] * _similarity(name, value, other) for other in VALUES[name]}
        for value in VALUES[name]
    }
    for name in ATTRIBUTES
}
"""All weighted similarities, since a study's ranked lists need millions of them."""
