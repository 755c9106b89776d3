"""Triplets mixed in with answers, so that a scorer goes on finding targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from hsfiq.model.data.texts import mining_text, normalise
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.preference.settings import Settings
from hsfiq.model.runtime.seeds import generator


@dataclass(frozen=True, slots=True)
class TripletBatch:
    """b triplets.

    Attributes:
        texts: b of them, normalised.
        images: b references, then b targets, then b negatives.
    """

    texts: list[str]
    images: list[str]


@dataclass(frozen=True, slots=True)
class Triplets:
    """Triplets with their pools, and the tokens of their images."""

    data: TrainingData
    tokens: TokenSource

    def batches(self, settings: Settings, epoch: int) -> Iterator[TripletBatch]:
        """Yield batches for ever, each time round in an order of its own.

        Each triplet has a negative drawn from its whole pool, as in the warm-up of the papers.
        """
        n, round_ = len(self.data.train), 0
        while True:
            drawing = generator(settings.seed, "triplets", epoch, round_)
            order = torch.randperm(n, generator=drawing).tolist()
            chances = torch.rand(n, generator=drawing).tolist()
            for start in range(0, n, settings.batch):
                yield self._batch(order[start : start + settings.batch], chances)
            round_ += 1

    def _batch(self, places: Sequence[int], chances: Sequence[float]) -> TripletBatch:
        examples = [self.data.train[i] for i in places]
        negatives = (
            negative(self.data.pools[it.pool], it.target, chances[i])
            for i, it in zip(places, examples, strict=True)
        )
        return TripletBatch(
            texts=[normalise(mining_text(it.captions)) for it in examples],
            images=[
                *(it.reference for it in examples),
                *(it.target for it in examples),
                *negatives,
            ],
        )


def negative(pool: Sequence[str], target: str, u: float) -> str:
    """Any image of a pool but the target, by `u` drawn from [0, 1)."""
    place = int(u * (len(pool) - 1))
    return pool[place] if place < pool.index(target) else pool[place + 1]
