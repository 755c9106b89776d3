"""Four systems of known, different quality that rank a category's whole corpus for a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.drawn.garments import generator
from hsfiq.drawn.utility import kept_metric, reference_metric, text_metric
from hsfiq.records import RankedList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hsfiq.drawn.garments import Garment
    from hsfiq.drawn.triplets import DrawnTriplet

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
