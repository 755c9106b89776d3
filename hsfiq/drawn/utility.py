"""The utility of an image for a query: the ground truth by which simulated annotators judge.

It is computed from the attributes, never by a scorer:

    utility = TEXT_SHARE * (mentioned attributes as in the target)
            + (1 - TEXT_SHARE) * (the others as in the reference)

Each part is the mean similarity of the attributes, weighted by `WEIGHTS`, so the utility is from
0 to 1. If the captions omit a difference, the labelled target is not the best image, as in
FashionIQ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from hsfiq.drawn.garments import ATTRIBUTES, VALUES, Attribute, Garment, generator
from hsfiq.drawn.triplets import NOUNS, DrawnTriplet, phrases_for
from hsfiq.errors import UnreadableInput
from hsfiq.records import RankedList

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


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


# Interpreting a caption from the reference and the text alone, without the target.
#
# The inverse of `hsfiq.drawn.triplets`: each phrase stands for the values that it may mean ("has
# longer sleeves": every longer length), so a text has one or more possible triplets. If every
# phrase is exact, there is one, and its utilities are exactly the true ones.

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


# Four systems of known, different quality that rank a category's whole corpus for a query.

DEPTH = 50
"""The length of a ranked list."""


@dataclass(frozen=True, slots=True)
class DrawnSystem:
    """A system that scores images by parts of their utility, with its own weights and noise.

    An image's score is `text` x its utility for the text + `kept` x its utility for the attributes
    that the text does not mention + `near` x its similarity to the reference (each 0 to 1)
    + Gaussian noise of standard deviation `noise`.
    """

    name: str
    text: float
    kept: float
    near: float
    noise: float

    def rank(
        self,
        triplet: DrawnTriplet,
        corpus: Iterable[Garment],
        seed: int,
        *,
        query_id: str | None = None,
        depth: int = DEPTH,
    ) -> RankedList:
        """Rank a corpus for a query, best first, without the reference.

        The noise depends only on the seed, the system, the query and the corpus as a set. The
        query's id differs from its triplet's if the captions are in reversed order (`~`).

        Raises:
            InvalidRecord: the corpus has no image but the reference.
        """
        query_id = query_id or triplet.external_id
        rng = generator(seed, self.name, query_id)
        images = sorted((garment.image_id, garment) for garment in corpus)
        score = self._score(triplet)
        scored = [
            (-score(garment) - rng.gauss(0, self.noise), image_id)
            for image_id, garment in images
            if garment != triplet.reference
        ]
        best = sorted(scored)[:depth]
        return RankedList(
            query_id=query_id,
            system=self.name,
            images=tuple(image_id for _, image_id in best),
            scores=tuple(round(-negative, 6) for negative, _ in best),
        )

    def _score(self, triplet: DrawnTriplet) -> Callable[[Garment], float]:
        parts = (
            (self.text, text_metric),
            (self.kept, kept_metric),
            (self.near, reference_metric),
        )
        weighted = [(weight, part(triplet)) for weight, part in parts if weight]
        return lambda garment: sum([weight * part(garment) for weight, part in weighted])


SYSTEMS = (
    DrawnSystem("sharp", text=0.5, kept=0.5, near=0.0, noise=0.12),
    DrawnSystem("blurred", text=0.5, kept=0.5, near=0.0, noise=0.19),
    DrawnSystem("text-heavy", text=1.0, kept=0.0, near=0.0, noise=0.15),
    DrawnSystem("image-heavy", text=0.15, kept=0.0, near=0.9, noise=0.12),
)
"""Best first by the mean utility of their retrieved sets."""
