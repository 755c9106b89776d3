"""The training loop of both papers (CIRQRS Algorithm 1, QuRe Algorithm 1).

Every epoch each triplet is trained with once, against one negative drawn from its negative set. The
sets are the whole pool at first and are defined anew, with the scorer as it stands, every
floor(n_epoch / n_def) epochs. Everything that is drawn follows from the seed and the place in the
run (`hsfiq.model.runtime.seeds`), so a run that was killed goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hsfiq.model.data.texts import normalise, training_text
from hsfiq.model.data.triplets import TrainingData
from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.negatives.redefinition import Definition, define, defined_at, from_tensors
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.runtime.diagnosis import Diverged, blame, require_finite
from hsfiq.model.runtime.distributed import World
from hsfiq.model.runtime.prefetch import ahead
from hsfiq.model.runtime.seeds import generator, seed_for
from hsfiq.model.scorer.inference import Inference, autocast
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, put, trained_parameters
from hsfiq.model.training.callbacks import Step, Watcher
from hsfiq.model.training.folder import Progress, RunFolder
from hsfiq.model.training.optimizer import Optimizer, precision
from hsfiq.model.training.validation import validate

SAVE_EVERY = 600.0
"""Seconds after which a checkpoint is written within an epoch too."""

NAMED = 3
"""Triplets that a message names."""


@dataclass(frozen=True, slots=True)
class Batch:
    """This process's part of a step."""

    triplet_ids: list[str]
    texts: list[str]
    references: Tensor  # [b, P, W] tokens
    targets: Tensor  # [b, P, W]
    negatives: Tensor  # [b, P, W]
    weight: float
    """Of each triplet in the loss: 1 / triplets of all processes together, 0 for a stand-in."""
    n: int
    """Triplets of all processes together."""


def split(batch: Batch, n: int) -> list[Batch]:
    """Cut a batch into at most n parts, which together weigh the same."""
    size = -(-len(batch.texts) // n)
    return [
        replace(
            batch,
            triplet_ids=batch.triplet_ids[part],
            texts=batch.texts[part],
            references=batch.references[part],
            targets=batch.targets[part],
            negatives=batch.negatives[part],
        )
        for part in (slice(at, at + size) for at in range(0, len(batch.texts), size))
    ]


class Trainer:
    """One run: a scorer, what it learns from, and how far it has got."""

    def __init__(
        self,
        scorer: Scorer,
        data: TrainingData,
        recipe: Recipe,
        tokens: TokenSource,
        folder: RunFolder,
        world: World,
        watcher: Watcher,
        save_every: float = SAVE_EVERY,
    ) -> None:
        """Go on where the folder's run stopped, or begin.

        Args:
            scorer: with the weights that training starts from, on the world's device.
            data: triplets and candidates.
            recipe: every number.
            tokens: of all images of the data.
            folder: the run's.
            world: the processes that train together.
            watcher: is told of the progress.
            save_every: seconds after which a checkpoint is written within an epoch too.

        Raises:
            UnreadableInput: the folder holds another run, or a broken checkpoint.
        """
        self.scorer, self.data, self.recipe, self.tokens = scorer, data, recipe, tokens
        self.folder, self.world, self.watcher = folder, world, watcher
        self.parameters = trained_parameters(scorer)
        self.dtype = precision(recipe.precision, world.device)
        self.inference = Inference(scorer, tokens, world, self.dtype)
        self.optimizer = Optimizer(self.parameters, recipe, world.device, self.dtype)
        self.progress = Progress()
        self.definition: Definition | None = None
        self.restore()
        self.module: nn.Module = scorer
        if world.size > 1:
            self.module = DistributedDataParallel(scorer)
        self.save_every, self.saved_at = save_every, monotonic()

    def train(self) -> None:
        """Train to the last epoch; nothing is done where the run has got there.

        Raises:
            Diverged: the loss or a weight is no number any more; the last checkpoint is sound.
        """
        if self.progress.epoch == self.recipe.epochs:
            return
        n_steps = -(-len(self.data.train) // self.recipe.batch)
        self.watcher.started(self.progress, n_steps)
        with self.telling_where():
            while self.progress.epoch < self.recipe.epochs:
                self.epoch(n_steps)
        self.world.wait()  # for the first to have written the last checkpoint

    def epoch(self, n_steps: int) -> None:
        """Train with every triplet once, from the step where the run stands, and validate."""
        epoch = self.progress.epoch
        definition = self.define(epoch)
        self.optimizer.set_lr(self.recipe.lr_at(epoch))
        self.scorer.train()
        with closing(ahead(self.batches(epoch, self.progress.step, definition))) as batches:
            for batch in batches:
                loss, accuracy = self.step(batch)
                place = (epoch, self.progress.step, n_steps)
                self.watcher.stepped(Step(*place, batch.n, loss, accuracy))
                self.progress.count(batch.n, loss, accuracy)
                if monotonic() - self.saved_at > self.save_every and self.progress.step < n_steps:
                    self.save()
        require_finite(self.parameters)
        self.progress.end_epoch(
            lr=self.recipe.lr_at(epoch),
            temperature=self.scorer.encoder.temperature.item(),
            val=validate(self.data, self.recipe, self.inference),
        )
        self.watcher.ended(self.progress.epochs[-1])
        self.save()

    def define(self, epoch: int) -> Definition:
        """The negatives that an epoch draws from: those in force, or defined anew."""
        if self.definition is None or self.definition.epoch != defined_at(self.recipe, epoch):
            self.definition = define(self.data, self.recipe, epoch, self.inference, self.world)
            self.progress.definitions.append(self.definition.to_json())
            self.watcher.defined(self.definition)
        return self.definition

    def batches(self, epoch: int, first: int, definition: Definition) -> Iterator[Batch]:
        """This process's part of each batch of an epoch, from the `first` on."""
        n, seed = len(self.data.train), self.recipe.seed
        order = torch.randperm(n, generator=generator(seed, "order", epoch))  # [Q]
        captions = torch.rand(n, generator=generator(seed, "captions", epoch))  # [Q]
        negatives = definition.columns[:, epoch - definition.epoch]  # [Q]
        for start in range(first * self.recipe.batch, n, self.recipe.batch):
            whole = order[start : start + self.recipe.batch]
            mine = self.world.share(whole)
            # Every process has to take part in a step: without a triplet, with one of no weight.
            weight = 1 / len(whole) if len(mine) else 0.0
            places = mine if len(mine) else whole[:1]
            yield self.read(places, captions[places], negatives[places], weight, len(whole))

    def read(
        self, places: Tensor, captions: Tensor, columns: Tensor, weight: float, n: int
    ) -> Batch:
        """Read the texts and tokens of some triplets and their negatives, each [b]."""
        examples = [self.data.train[place] for place in places.tolist()]
        pairs = list(zip(examples, captions.tolist(), columns.tolist(), strict=True))
        rule = self.recipe.captions
        images = [
            *(it.reference for it in examples),
            *(it.target for it in examples),
            *(self.data.pools[it.pool][column] for it, _, column in pairs),
        ]
        references, targets, negatives = self.tokens.tokens(images).chunk(3)
        return Batch(
            triplet_ids=[it.triplet_id for it in examples],
            texts=[normalise(training_text(it.captions, rule, u)) for it, u, _ in pairs],
            references=references,
            targets=targets,
            negatives=negatives,
            weight=weight,
            n=n,
        )

    def step(self, batch: Batch) -> tuple[float, float]:
        """Take one step of the optimiser.

        Returns:
            The batch's mean loss and the share of its targets scored above their negatives, of
            all processes together.

        Raises:
            Diverged: the loss is no number.
        """
        place = (self.recipe.seed, "step", self.progress.epoch, self.progress.step)
        torch.manual_seed(seed_for(*place, self.world.rank))  # for dropout, where there is any
        sums = torch.zeros(2, device=self.world.device)  # loss, correct
        parts = split(batch, self.recipe.accumulate)
        for i, part in enumerate(parts):
            with self.in_step(is_last=i == len(parts) - 1):
                margins = self.margins(self.module, part)  # [b]
                losses = bradley_terry_loss(margins.float()) * part.weight  # [b]
                # DistributedDataParallel takes the mean over processes; the loss is their sum.
                self.optimizer.backward(losses.sum() * self.world.size)
            correct = (margins > 0).sum() * part.weight
            sums += torch.stack([losses.detach().sum(), correct])
        loss, accuracy = self.world.total(sums).tolist()
        if not torch.tensor(loss).isfinite():
            raise Diverged(self.what_diverged(parts))
        self.optimizer.step()
        return loss, accuracy

    def margins(self, module: nn.Module, part: Batch) -> Tensor:
        """The forward pass: [b] log odds that each target is preferred."""
        device = self.world.device
        with autocast(device, self.dtype):
            margins: Tensor = module(
                part.references.to(device),
                part.texts,
                part.targets.to(device),
                part.negatives.to(device),
            )
        return margins

    def in_step(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Processes exchange gradients once a step, with its last part."""
        if isinstance(self.module, DistributedDataParallel) and not is_last:
            return self.module.no_sync()
        return nullcontext()

    def what_diverged(self, parts: list[Batch]) -> str:
        """Say where the first number that is none came from."""
        for part in parts:
            culprit = blame(self.scorer, partial(self.margins, self.scorer, part))
            if culprit is not None:
                first = ", ".join(part.triplet_ids[:NAMED])
                more = ", ..." if len(part.triplet_ids) > NAMED else ""
                return f"the loss is no number; first seen in {culprit}, triplets {first}{more}"
        return "the loss is no number, on another process"

    @contextmanager
    def telling_where(self) -> Iterator[None]:
        """Say of a divergence where the run stood, what is kept of it and what may help."""
        try:
            yield
        except Diverged as error:
            where = f"epoch {self.progress.epoch}, step {self.progress.step}"
            kept = "no checkpoint was written"
            if self.folder.last() is not None:
                kept = "the last checkpoint is sound"
            advice = "try a lower lr, clip_norm=1, or precision=fp32"
            raise Diverged(f"{where}: {error}; {kept}; {advice}") from error

    def save(self) -> None:
        """Write a checkpoint, in the first process.

        It need not ask the others, whose clocks may say otherwise of whether one is due: they wait
        for it where they next exchange something.

        Raises:
            Diverged: a weight is no number.
        """
        self.saved_at = monotonic()
        if self.world.is_first and self.definition is not None:
            require_finite(self.parameters)
            self.watcher.saving()
            state = self.optimizer.tensors() | self.definition.tensors()
            self.folder.save(self.progress, self.parameters, state)
            self.saved_at = monotonic()

    def restore(self) -> None:
        """Take up the folder's last checkpoint, if there is one."""
        checkpoint = self.folder.last()
        if checkpoint is None:
            return
        self.progress = Progress(**checkpoint.about["progress"])
        put(checkpoint.tensors("scorer"), self.parameters, str(checkpoint.path))
        state = checkpoint.tensors("state")
        self.optimizer.put(state)
        self.definition = from_tensors(state, self.progress.definitions[-1])
