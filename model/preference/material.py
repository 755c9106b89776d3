"""What a retraining reads besides the answers: images, their tokens, and triplets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hsfiq.errors import NothingToDo
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.features.cache import FeatureCache
from hsfiq.model.preference.data import Answers, Question, with_images
from hsfiq.model.preference.mixing import Triplets
from hsfiq.model.runtime.distributed import World
from hsfiq.model.scorer.loading import Loaded
from hsfiq.model.scoring import run as score_run
from hsfiq.model.scoring.run import pictures
from hsfiq.model.training import run as training_run
from hsfiq.model.training.callbacks import Watcher
from hsfiq.model.training.run import ENCODER_BATCH, TOKENS_DTYPE


@dataclass(frozen=True, slots=True)
class Where:
    """The folders of a retraining.

    Attributes:
        out: its own.
        release: whose answers are learned from.
        init: the scorer's checkpoint that it starts from.
        cache: the feature cache's.
        images: of the release; None for the usual folders, or the drawn catalogue's own pictures.
        weights: of BLIP-2's published files; the usual one if None.
    """

    out: Path
    release: Path
    init: Path
    cache: Path
    images: Path | None = None
    weights: Path | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """What training reads, its images found.

    Attributes:
        train: the questions to train with.
        held_out: those to report on.
        left_out: ids of the questions that lack an image.
        tokens: of all their images.
        triplets: of the data that was named, less those that are held out; None without.
    """

    train: list[Question]
    held_out: list[Question]
    left_out: list[str]
    tokens: FeatureCache
    triplets: Triplets | None


def gather(
    where: Where,
    answers: Answers,
    loaded: Loaded,
    data: TrainingData | None,
    device: torch.device,
    watcher: Watcher,
) -> Material:
    """Find the images and compute the tokens that the cache lacks.

    Raises:
        UnreadableInput: no images, or no room for their tokens.
        NothingToDo: no question to train with has all of them.
    """
    encoder = loaded.scorer.encoder
    train, test = answers.part("train"), answers.part("test")
    sets = [it for question in (*train, *test) for it in question.sets]
    place = score_run.Where(
        where.release, where.out, where.init, where.cache, where.images, where.weights
    )
    tokens = FeatureCache.open(where.cache, encoder, TOKENS_DTYPE)
    with pictures(sets, place) as files:
        found = tokens.fill(
            files, batch=ENCODER_BATCH, device=device, workers=1, on_progress=watcher.caching
        )
        there = frozenset(files.keys() - found.unreadable.keys())
    kept, lacking = with_images(train, there)
    kept_test, lacking_test = with_images(test, there)
    if not kept:
        raise NothingToDo(
            f"{where.release}: no question to train on has all its images; name their folder with "
            "--images"
        )
    triplets = None
    if data is not None:
        folders = training_run.Where(where.out, where.cache)
        source, data = training_run.tokens_of(
            without_held_out(data, answers), encoder, folders, World(device), watcher
        )
        triplets = Triplets(data, source)
    return Material(kept, kept_test, lacking + lacking_test, tokens, triplets)


def without_held_out(data: TrainingData, answers: Answers) -> TrainingData:
    """The data without the training triplets that the release holds out."""
    kept = tuple(it for it in data.train if (it.reference, it.target) not in answers.held_out)
    return replace(data, train=kept)
