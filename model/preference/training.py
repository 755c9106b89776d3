"""The training loop of a retraining: alternately fit the answer model and train the scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import torch
from torch import Tensor, nn

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.model.data import TrainingData, mining_text
from hsfiq.model.image_tokens import FeatureCache, TokenSource
from hsfiq.model.preference.answer_model import AnswerModel, AnswerTensors, fit_answers
from hsfiq.model.preference.answers import Question, ReleaseAnswers, with_images
from hsfiq.model.recipes import RANGES as RECIPE_RANGES
from hsfiq.model.recipes import RETRAINING, Recipe, read_values, shown
from hsfiq.model.release_scores import image_relevances, images_of_release, indexed
from hsfiq.model.runtime import Distributed, Diverged, generator, require_finite, seed_for
from hsfiq.model.scorer.inference import Inference, autocast
from hsfiq.model.scorer.job import Callback, Optimizer
from hsfiq.model.scorer.loading import Loaded, ScorerPaths
from hsfiq.model.scorer.run import tokens_of
from hsfiq.model.scorer.scorer import (
    Scorer,
    bradley_terry_loss,
    paired_relevance,
    set_score,
    trained_parameters,
)

# The settings of the recipe `preference`, besides the data and the scorer that it starts from.

NAME: Final = RETRAINING

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "score_weight": (0, 1e6),
    "offset_sd": (1e-6, 1e6),
    "mix": (0, 1e6),
    "folds": (0, 100),
} | {
    key: RECIPE_RANGES[key]
    for key in ("epochs", "batch", "lr", "final_lr_share", "weight_decay", "clip_norm", "seed")
}

TINY: Final[Mapping[str, Any]] = {"lr": 3e-4, "held": ("encoder.patches",)}
"""For the small encoder. Its image encoder would memorise the few images of a study; BLIP-2's is
frozen in any case."""

BLIP2: Final[Mapping[str, Any]] = {"lr": 1e-6, "held": None}
"""A fifth of the smallest learning rate of the papers' recipes, since the scorer is only adjusted;
not tried on BLIP-2 itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scorer is retrained. None of the values comes from a paper."""

    lr: float  # learning rate of the first epoch
    held: tuple[str, ...] | None = None  # prefixes of the names of parameters to freeze
    epochs: int = 8  # passes over the answers; the last is kept, whatever the held-out part gives
    batch: int = 32  # questions per optimiser step, and triplets if they are mixed in
    final_lr_share: float = 0.01  # of `lr`, reached by cosine decay, one step per epoch
    weight_decay: float = 0.01  # AdamW's
    clip_norm: float = 1.0  # largest norm of the gradient; larger ones are scaled down
    score_weight: float = 1.0  # of the loss on Likert scores; that on preferences has weight 1
    offset_sd: float = 1.0  # of the normal prior of participants' offsets, in logits
    mix: float = 0.0  # weight of the loss on triplets
    reliability: Literal["off", "on"] = "off"  # "on": contradicting answers lower one's weight
    folds: int = 4  # of cross-fitting, which fits the final answer model; 0 leaves it out
    seed: int = 1000

    def __post_init__(self) -> None:
        for key, (least, most) in RANGES.items():
            value = getattr(self, key)
            if not least <= value <= most:
                raise UnreadableInput(
                    f"recipe {NAME}", f"{key} is {shown(value)}, not from {least} to {most}"
                )

    @classmethod
    def for_encoder(cls, name: str) -> Settings:
        return cls(**(TINY if name == "tiny" else BLIP2))

    def with_values(self, values: Mapping[str, str]) -> Settings:
        """The settings with values changed as on the command line; refuse unknown keys."""
        return replace(self, **read_values(values, get_type_hints(Settings), NAME))

    def optimisation(self, recipe: Recipe) -> Recipe:
        """The recipe with the optimiser values of these settings."""
        shared = {field.name for field in fields(self)} & {field.name for field in fields(recipe)}
        values = {name: getattr(self, name) for name in shared}
        return replace(recipe, **values, accumulate=1, strategy="corpus", n_def=1)

    def to_json(self) -> dict[str, Any]:
        return {"name": NAME, **asdict(self)}


# What a retraining reads besides the answers: the images' tokens, and triplets to mix in.


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
    """The inputs of a retraining, restricted to the available images."""

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


# The training loop of a retraining: alternately fit the answer model and train the scorer.
#
# Before every epoch the answer model is fitted to the current scores (`response_model`); then the
# scorer takes an AdamW step for each batch of questions. Both maximise the same likelihood; the
# answer model can be fitted exactly, and so needs no learning rate. If triplets are mixed in, each
# step also has a batch of triplets, each with a negative drawn from its whole pool. Several
# processes share each batch, and add up their gradients.
#
# It is simpler than `hsfiq.model.scorer.loop`, which has validation, callbacks and checkpoints: a
# retraining keeps its last epoch, and is repeated if it was interrupted.


@dataclass(frozen=True, slots=True)
class Retrained:
    """The scorer's answer models before and after, and the mean losses of each epoch.

    `cross_fitted` is the model after, fitted to scores of questions that the scorer was not trained
    on; None without folds.
    """

    before: AnswerModel
    after: AnswerModel
    epochs: list[dict[str, Any]]
    cross_fitted: AnswerModel | None = None

    @property
    def final(self) -> AnswerModel:
        """The answer model for predictions with the retrained scorer."""
        return self.cross_fitted or self.after


class Retraining:
    def __init__(
        self,
        scorer: Scorer,
        recipe: Recipe,
        settings: Settings,
        questions: Sequence[Question],
        answers: AnswerTensors,
        tokens: TokenSource,
        distributed: Distributed,
        dtype: torch.dtype,
        triplets: Triplets | None = None,
        on_epoch: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare to train a scorer, which is changed and is on the device of `distributed`.

        Args:
            recipe: of its first training, for the optimiser's other values.
            triplets: mixed in if `settings.mix` is above 0.
        """
        self.scorer, self.recipe, self.settings = scorer, recipe, settings
        self.triplets, self.on_epoch = triplets, on_epoch
        self.questions, self.answers, self.tokens = questions, answers, tokens
        self.distributed, self.dtype = distributed, dtype
        self.held, self.parameters = split_parameters(
            trained_parameters(scorer), settings.held or ()
        )
        self.optimisation = settings.optimisation(recipe)
        self.optimizer = Optimizer(
            self.parameters, self.optimisation, settings.weight_decay, distributed.device, dtype
        )
        self.inference = Inference(scorer.encoder, tokens, distributed)

    def on(self, questions: Sequence[Question], answers: AnswerTensors) -> Retraining:
        """The same retraining of the same scorer, as it is now, on other questions."""
        return Retraining(
            self.scorer,
            self.recipe,
            self.settings,
            questions,
            answers,
            self.tokens,
            self.distributed,
            self.dtype,
            self.triplets,
            self.on_epoch,
        )

    def train(self) -> Retrained:
        """Train for all epochs; raise `Diverged` if a loss or a weight is not finite."""
        model = before = self.fit()
        epochs = []
        with frozen(self.held.values()):
            for epoch in range(self.settings.epochs):
                self.optimizer.set_lr(self.optimisation.lr_at(epoch))
                self.scorer.train()
                epochs.append({"epoch": epoch, **self.epoch(epoch, model)})
                require_finite(self.parameters)
                model = self.fit()
                self.on_epoch()
        return Retrained(before, model, epochs)

    def fit(self) -> AnswerModel:
        """The answer model of the scorer as it is now."""
        sets = set_scores(self.questions, self.scorer, self.inference)  # [Q, 2]
        return fit_answers(sets, self.answers, self.settings.offset_sd)

    def epoch(self, epoch: int, model: AnswerModel) -> dict[str, float]:
        """Train on every question once; return the mean losses."""
        n, batch = len(self.questions), self.settings.batch
        order = torch.randperm(n, generator=generator(self.settings.seed, "order", epoch))  # [Q]
        triplet_losses = self.triplet_losses(epoch)
        sums: dict[str, float] = {}
        for step, start in enumerate(range(0, n, batch)):
            places = order[start : start + batch]  # [B]
            torch.manual_seed(seed_for(self.settings.seed, "step", epoch, step))  # for dropout
            for name, loss in self.step(places, model, triplet_losses).items():
                sums[name] = sums.get(name, 0.0) + loss * len(places) / n
        return sums

    def step(
        self, places: Tensor, model: AnswerModel, triplet_losses: Iterator[Tensor]
    ) -> dict[str, float]:
        """Take one step of the optimiser; return mean losses, and their weighted sum as "loss"."""
        own, share = self.distributed.weighted_share(places)  # [b]
        sets = self.sets(own)  # [b, 2]
        answers = self.answers.part(own, sets.device)
        preferences, scores = model.losses(sets, answers)  # [b], [b]
        weights = share * answers.weights.to(sets)  # [b]
        losses = {"preference": (weights * preferences).sum(), "score": (weights * scores).sum()}
        total = losses["preference"] + self.settings.score_weight * losses["score"]
        triplet_loss = next(triplet_losses, None)
        if triplet_loss is not None:
            losses["triplet"] = triplet_loss
            total = total + self.settings.mix * losses["triplet"]
        losses["loss"] = total
        of_all = self.distributed.total(torch.stack(list(losses.values())).detach())
        if not of_all.isfinite().all():
            raise Diverged("the loss is not finite; try a lower lr, or another --checkpoint")
        self.optimizer.backward(total)
        for parameter in self.parameters.values():
            if parameter.grad is not None:
                parameter.grad = self.distributed.total(parameter.grad)
        self.optimizer.step()
        return dict(zip(losses, of_all.tolist(), strict=True))

    def sets(self, places: Tensor) -> Tensor:
        """The scores of the questions' sets, with gradients: [B] -> [B, 2] float32.

        Each is the `set_score` of its images; sets may differ in size.
        """
        sets = [released for place in places.tolist() for released in self.questions[place].sets]
        queries = indexed((released.reference, released.text) for released in sets)
        images = indexed(image for released in sets for image in released.images)
        pairs = [
            (i, queries[released.reference, released.text], images[image])
            for i, released in enumerate(sets)
            for image in released.images
        ]
        owner, query, image = torch.tensor(pairs, device=self.distributed.device).T  # [M] each
        with autocast(self.distributed.device, self.dtype):
            composed = self.scorer.encoder.compose(
                self.read([reference for reference, _ in queries]),
                [self.scorer.encoder.clean_text(text) for _, text in queries],
            )  # [Q, D]
            gallery = self.scorer.encoder.gallery(self.read(list(images)))  # [N, L, D]
        relevances = paired_relevance(
            composed.float()[query], gallery.float()[image], self.scorer.pooling
        )  # [M]
        sums = relevances.new_zeros(len(sets)).index_add(0, owner, relevances)  # [2B]
        means: Tensor = sums / owner.bincount(minlength=len(sets))
        return means.view(-1, 2)

    def triplet_losses(self, epoch: int) -> Iterator[Tensor]:
        """Yield this process's part of each batch's mean loss; nothing if none are mixed in."""
        if self.triplets is None or not self.settings.mix:
            return
        encoder = self.scorer.encoder
        for batch in self.triplets.batches(self.settings, epoch):
            places = torch.arange(len(batch.texts))  # [B]
            own, share = self.distributed.weighted_share(places)  # [b]
            rows = own.tolist()
            images = [
                of_rows[row]
                for of_rows in (batch.references, batch.targets, batch.negatives)
                for row in rows
            ]
            tokens = self.triplets.tokens.tokens(images).to(self.distributed.device)
            references, targets, negatives = tokens.chunk(3)  # [b, P, W]
            texts = [encoder.clean_text(batch.texts[row]) for row in rows]
            with autocast(self.distributed.device, self.dtype):
                margins = self.scorer(references, texts, targets, negatives)  # [b]
            yield share * bradley_terry_loss(margins.float()).sum()

    def read(self, images: Sequence[str]) -> Tensor:
        return self.tokens.tokens(images).to(self.distributed.device)


def split_parameters(
    parameters: Mapping[str, nn.Parameter], held: Sequence[str]
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Split into parameters whose names begin with one of `held`, and the others; refuse none."""
    for prefix in held:
        if not any(name.startswith(prefix) for name in parameters):
            raise UnreadableInput(f"held={prefix}", "no parameter's name has this prefix")
    fixed = {name: value for name, value in parameters.items() if name.startswith(tuple(held))}
    if len(fixed) == len(parameters):
        raise UnreadableInput(f"held={','.join(held)}", "leaves no parameter to train")
    return fixed, {name: value for name, value in parameters.items() if name not in fixed}


@contextmanager
def frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Compute no gradients for these parameters inside the block."""
    held = list(parameters)
    for parameter in held:
        parameter.requires_grad_(False)  # noqa: FBT003 (torch's own, by position)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_()


def set_scores(questions: Sequence[Question], scorer: Scorer, inference: Inference) -> Tensor:
    """The scores of the questions' sets, without gradients: [Q, 2] float64 on the CPU."""
    sets = [released for question in questions for released in question.sets]
    available = {image for released in sets for image in released.images}
    relevances = image_relevances(sets, available, scorer.pooling, inference)
    means = [
        set_score(of_images[image] for image in released.images)
        for released, of_images in zip(sets, relevances, strict=True)
    ]
    return torch.tensor(means, dtype=torch.float64).view(-1, 2)
