"""What a retraining reads besides the answers: the images' tokens, and triplets to mix in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hsfiq.errors import NothingToDo
from hsfiq.model.data.texts import mining_text
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.preference.answers import Question, ReleaseAnswers, with_images
from hsfiq.model.preference.settings import Settings
from hsfiq.model.release_scores.encoded_images import images_of_release
from hsfiq.model.runtime.distributed import Distributed
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.scorer.paths import ScorerPaths
from hsfiq.model.training.callbacks import Callback
from hsfiq.model.training.run import tokens_of


@dataclass(frozen=True, slots=True)
class TripletBatch:
    """The texts, references, targets and negatives of b triplets."""

    texts: list[str]
    references: list[str]
    targets: list[str]
    negatives: list[str]


@dataclass(frozen=True, slots=True)
class Triplets:
    """Triplets to mix in with the answers, so that the scorer keeps finding targets."""

    data: TrainingData
    tokens: TokenSource

    def batches(self, settings: Settings, epoch: int) -> Iterator[TripletBatch]:
        """Yield batches endlessly, in a new order each time all triplets have been used.

        Each negative is drawn from the triplet's whole pool, as in the papers' warm-up.
        """
        n, round_ = len(self.data.train), 0
        while True:
            rng = generator(settings.seed, "triplets", epoch, round_)
            order = torch.randperm(n, generator=rng).tolist()
            chances = torch.rand(n, generator=rng).tolist()
            for start in range(0, n, settings.batch):
                places = order[start : start + settings.batch]
                triplets = [self.data.train[place] for place in places]
                negatives = [
                    draw_negative(self.data.pools[triplet.pool], triplet.target, chances[place])
                    for place, triplet in zip(places, triplets, strict=True)
                ]
                yield TripletBatch(
                    texts=[mining_text(triplet.captions) for triplet in triplets],
                    references=[triplet.reference for triplet in triplets],
                    targets=[triplet.target for triplet in triplets],
                    negatives=negatives,
                )
            round_ += 1


def draw_negative(pool: Sequence[str], target: str, u: float) -> str:
    """An image of the pool other than the target, by `u` drawn from [0, 1)."""
    place = int(u * (len(pool) - 1))
    return pool[place] if place < pool.index(target) else pool[place + 1]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a retraining reads, restricted to the images that are available."""

    train: list[Question]
    held_out: list[Question]
    left_out: list[str]  # ids of the questions that lack an image
    tokens: FeatureCache
    triplets: Triplets | None  # of the given data, without the held-out ones


def prepare_inputs(
    release: Path,
    paths: ScorerPaths,
    answers: ReleaseAnswers,
    loaded: Loaded,
    data: TrainingData | None,
    distributed: Distributed,
    callback: Callback,
) -> Inputs:
    """Find images, compute missing tokens; NothingToDo if no training question has its images."""
    encoder = loaded.scorer.encoder
    train, test = answers.part("train"), answers.part("test")
    sets = [released for question in (*train, *test) for released in question.sets]
    tokens = FeatureCache.open(paths.cache, encoder)
    with images_of_release(sets, release, paths.images) as files:
        report = tokens.fill(
            files,
            device=distributed.device,
            on_progress=callback.caching,
            rank=distributed.rank,
            processes=distributed.size,
        )
        available = files.keys() - report.unreadable.keys()
    complete, incomplete = with_images(train, available)
    complete_test, incomplete_test = with_images(test, available)
    if not complete:
        raise NothingToDo(
            f"{release}: no training question has all its images; name their folder with --images"
        )
    triplets = None
    if data is not None:
        source, kept = tokens_of(
            without_held_out(data, answers), encoder, paths.cache, distributed, callback
        )
        triplets = Triplets(kept, source)
    return Inputs(complete, complete_test, incomplete + incomplete_test, tokens, triplets)


def without_held_out(data: TrainingData, answers: ReleaseAnswers) -> TrainingData:
    """The data without the training triplets that the release holds out."""
    kept = tuple(
        triplet
        for triplet in data.train
        if (triplet.reference, triplet.target) not in answers.held_out
    )
    return replace(data, train=kept)
