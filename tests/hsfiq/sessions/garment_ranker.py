"""A small ranker of drawn garments without torch, with queries for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from hsfiq.drawn import catalogue, corpus, generator
from hsfiq.drawn.garments import ATTRIBUTES, VALUES, garment_of
from hsfiq.drawn.triplets import draw_split
from hsfiq.live.protocol import (
    Corpus,
    History,
    RankedList,
    RetrieverUnavailable,
    Search,
    SystemDescription,
    TargetRank,
    Turn,
    corpus_sha256,
)
from hsfiq.sessions.play import Query
from hsfiq.text import joined

GARMENTS = catalogue(generator(0, "sessions"), 60)
IMAGES = tuple(garment.image_id for garment in corpus(GARMENTS, "dress"))
QUERIES = tuple(
    Query(
        query_id=each.external_id,
        reference=each.reference.image_id,
        text=joined(each.captions),
        targets=(each.target.image_id,),
        category="dress",
    )
    for each in draw_split(generator(1, "queries"), GARMENTS, "dress", "val", 12)
)


@dataclass
class GarmentRanker:
    """Counts, turn by turn, the attributes that the text names, or else the reference has.

    It fails after `fails_after` requests, as a server that goes down.
    """

    version: str = "1"
    histories: tuple[History, ...] = ("mean", "last")
    fails_after: int | None = None
    sizes: list[int] = field(default_factory=list)

    def system(self) -> SystemDescription:
        return SystemDescription(
            protocol=1,
            name="attributes",
            version=self.version,
            corpus=Corpus(name="dress", size=len(IMAGES), sha256=corpus_sha256(IMAGES)),
            histories=self.histories,
            max_k=len(IMAGES),
            max_batch=64,
        )

    def corpus(self) -> tuple[str, ...]:
        return IMAGES

    def rank(self, searches: Sequence[Search], history: History, k: int) -> list[RankedList]:
        assert history in get_args(History)
        if len(self.sizes) == self.fails_after:
            raise RetrieverUnavailable("http://here", "cannot be reached")
        self.sizes.append(len(searches))
        return [self._rank(search, history, k) for search in searches]

    def _rank(self, search: Search, history: History, k: int) -> RankedList:
        turns = search.turns[-1:] if history == "last" else search.turns
        images = [image for image in IMAGES if image not in search.exclude]
        scores = {image: sum(likeness(turn, image) for turn in turns) for image in images}
        order = sorted(images, key=lambda image: -scores[image])  # ties in the corpus' order
        return RankedList(
            image_ids=tuple(order[:k]),
            scores=tuple(float(scores[image]) for image in order[:k]),
            targets=tuple(
                TargetRank(
                    image_id=target,
                    rank=order.index(target) + 1,
                    ties=list(scores.values()).count(scores[target]) - 1,
                )
                for target in search.targets
            ),
        )


def likeness(turn: Turn, image: str) -> int:
    garment, reference = garment_of(image), garment_of(turn.reference)
    wanted = {
        name: next((v for v in VALUES[name] if v in turn.text), reference.value(name))
        for name in ATTRIBUTES
    }
    return sum(garment.value(name) == value for name, value in wanted.items())
