"""Retraining by turns: the answers' own laws with the scorer held fixed, the scorer with these.

Before every epoch, temperature, side bias, ties, thresholds and offsets are fitted to the scores
that the scorer gives now (`model.preference.response_model`); then it takes a step of AdamW for
each batch of questions. So both raise the same likelihood, and no learning rate is asked for what
can be found exactly. Where triplets are mixed in, each step has a batch of these as well, each
against a negative drawn from its whole pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.data.texts import normalise
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.preference.data import Question
from hsfiq.model.preference.held import holding, parted
from hsfiq.model.preference.mixing import Triplets
from hsfiq.model.preference.response_model import AnswerModel, Judgements, fit_answers
from hsfiq.model.preference.settings import Settings
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.diagnosis import Diverged, require_finite
from hsfiq.model.runtime.distributed import World
from hsfiq.model.runtime.seeds import generator, seed_for
from hsfiq.model.scorer.inference import Inference, autocast
from hsfiq.model.scorer.relevance import paired_relevance
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, trained_parameters
from hsfiq.model.scoring.release_scores import numbered, relevances_of
from hsfiq.model.training.optimizer import Optimizer


@dataclass(frozen=True, slots=True)
class Retrained:
    """What came of it, besides the scorer's own weights.

    Attributes:
        before: the answers' laws by the scorer as it was.
        after: by the scorer as it is.
        epochs: a line for each.
    """

    before: AnswerModel
    after: AnswerModel
    epochs: list[dict[str, Any]]


class Retraining:
    """A scorer and the questions that it learns from."""

    def __init__(
        self,
        scorer: Scorer,
        recipe: Recipe,
        settings: Settings,
        questions: Sequence[Question],
        asked: Judgements,
        tokens: TokenSource,
        world: World,
        dtype: torch.dtype,
        triplets: Triplets | None = None,
    ) -> None:
        """Take what is needed to train.

        Args:
            scorer: on the world's device; its weights are changed.
            recipe: by which it was trained: the optimiser's other numbers.
            settings: every number of this training.
            questions: Q to train with.
            asked: their answers.
            tokens: of all their images.
            world: one process.
            dtype: of the arithmetic.
            triplets: mixed in where `settings.mix` is above 0.

        Raises:
            UnreadableInput: parameters are to be held that there are not.
        """
        self.scorer, self.settings = scorer, settings
        self.questions, self.asked = questions, asked
        self.tokens, self.world, self.dtype, self.triplets = tokens, world, dtype, triplets
        self.held, self.parameters = parted(trained_parameters(scorer), settings.held or ())
        optimisation = settings.optimisation(recipe)
        self.optimizer = Optimizer(self.parameters, optimisation, world.device, dtype)
        self.inference = Inference(scorer, tokens, world, dtype)

    def train(self) -> Retrained:
        """Train to the last epoch.

        Raises:
            Diverged: a loss or a weight is no number.
        """
        answers = before = self.fit()
        epochs = []
        with holding(self.held.values()):
            for epoch in range(self.settings.epochs):
                self.optimizer.set_lr(self.settings.lr_at(epoch))
                self.scorer.train()
                epochs.append({"epoch": epoch, **self.epoch(epoch, answers)})
                require_finite(self.parameters)
                answers = self.fit()
        return Retrained(before, answers, epochs)

    def fit(self) -> AnswerModel:
        """The answers' laws by the scorer as it stands."""
        sets = set_scores(self.questions, self.scorer, self.inference)  # [Q, 2]
        return fit_answers(sets, self.asked, self.settings.offset_sd)

    def epoch(self, epoch: int, answers: AnswerModel) -> dict[str, float]:
        """Train with every question once; returns the means of the losses."""
        n, batch = len(self.questions), self.settings.batch
        order = torch.randperm(n, generator=generator(self.settings.seed, "order", epoch))  # [Q]
        mixed = self.mixed(epoch)
        sums: dict[str, float] = {}
        for step, start in enumerate(range(0, n, batch)):
            places = order[start : start + batch]  # [B]
            torch.manual_seed(seed_for(self.settings.seed, "step", epoch, step))  # for dropout
            for name, loss in self.step(places, answers, mixed).items():
                sums[name] = sums.get(name, 0.0) + loss * len(places) / n
        return sums

    def step(
        self, places: Tensor, answers: AnswerModel, mixed: Iterator[Tensor]
    ) -> dict[str, float]:
        """Take one step of the optimiser.

        Args:
            places: [B] questions.
            answers: the laws that hold in this epoch.
            mixed: yields the margins of a batch of triplets, [b], where they are mixed in.

        Returns:
            The means of the losses, and their weighted sum.

        Raises:
            Diverged: it is no number.
        """
        sets = self.sets(places)  # [B, 2]
        asked = part_of(self.asked, places, sets.device)
        preferences, scores = answers.losses(sets, asked)  # [B], [B]
        weights = asked.weights.to(sets)  # [B]
        losses = {
            "preference": (weights * preferences).mean(),
            "score": (weights * scores).mean(),
        }
        total = losses["preference"] + self.settings.score_weight * losses["score"]
        triplets = next(mixed, None)
        if triplets is not None:
            losses["triplet"] = bradley_terry_loss(triplets.float()).mean()
            total = total + self.settings.mix * losses["triplet"]
        if not total.isfinite():
            raise Diverged("the loss is no number; try a lower lr, or another --init")
        self.optimizer.backward(total)
        self.optimizer.step()
        return {name: loss.item() for name, loss in {**losses, "loss": total}.items()}

    def sets(self, places: Tensor) -> Tensor:
        """The scores of questions' sets, with gradients: [B] -> [B, 2] float32."""
        sets = [it for place in places.tolist() for it in self.questions[place].sets]
        queries = numbered((it.reference, it.text) for it in sets)
        images = numbered(image for it in sets for image in it.images)
        pairs = [
            (set_, queries[it.reference, it.text], images[image])
            for set_, it in enumerate(sets)
            for image in it.images
        ]
        owner, query, image = torch.tensor(pairs, device=self.world.device).T  # [M] each
        with autocast(self.world.device, self.dtype):
            asked = self.scorer.encoder.query(
                self.read([reference for reference, _ in queries]),
                [normalise(text) for _, text in queries],
            )  # [Q, D]
            shown = self.scorer.encoder.gallery(self.read(list(images)))  # [N, L, D]
        relevances = paired_relevance(
            asked.float()[query], shown.float()[image], self.scorer.pooling
        )  # [M]
        sums = relevances.new_zeros(len(sets)).index_add(0, owner, relevances)  # [2B]
        means: Tensor = sums / owner.bincount(minlength=len(sets))
        return means.view(-1, 2)

    def mixed(self, epoch: int) -> Iterator[Tensor]:
        """The margins of batches of triplets, [b] each; nothing where none are mixed in."""
        if self.triplets is None or not self.settings.mix:
            return
        for batch in self.triplets.batches(self.settings, epoch):
            read = self.triplets.tokens.tokens(batch.images).to(self.world.device)
            references, targets, negatives = read.chunk(3)  # [b, P, W]
            with autocast(self.world.device, self.dtype):
                yield self.scorer(references, batch.texts, targets, negatives)

    def read(self, images: Sequence[str]) -> Tensor:
        """The images' tokens, on the device."""
        return self.tokens.tokens(images).to(self.world.device)


def part_of(asked: Judgements, places: Tensor, device: torch.device) -> Judgements:
    """Some of the answers, on a device."""
    return Judgements(
        preferred=asked.preferred[places].to(device),
        scores=asked.scores[places].to(device),
        people=asked.people[places].to(device),
        weights=asked.weights[places].to(device),
        participants=asked.participants,
    )


def set_scores(questions: Sequence[Question], scorer: Scorer, inference: Inference) -> Tensor:
    """The scores of questions' sets, without gradients: [Q, 2] float64 on the CPU."""
    sets = [it for question in questions for it in question.sets]
    there = {image for it in sets for image in it.images}
    found = relevances_of(sets, there, scorer.pooling, inference)
    means = [
        sum(of_images[image] for image in it.images) / len(it.images)
        for it, of_images in zip(sets, found, strict=True)
    ]
    return torch.tensor(means, dtype=torch.float64).view(-1, 2)
