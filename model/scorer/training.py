"""The training loop of both papers (CIRQRS Algorithm 1, QuRe Algorithm 1).

Every epoch trains on each triplet once, against one negative drawn from the query's negative set.
The sets are the whole pool at first, and are redefined with the current scorer every
floor(n_epoch / n_def) epochs. Every random draw follows from the seed and its place in the run
(`hsfiq.model.runtime`), so a resumed run continues exactly as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from statistics import mean
from time import monotonic
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hsfiq.errors import UnreadableInput
from hsfiq.model.data import Example, TrainingData, mining_text, rows_by_pool, training_text
from hsfiq.model.features import TokenSource
from hsfiq.model.recipes import Pooling, Recipe
from hsfiq.model.runtime import (
    Distributed,
    Diverged,
    first_not_finite,
    generator,
    moved,
    prefetched,
    require_finite,
    seed_for,
    staged,
)
from hsfiq.model.scorer.inference import CHUNK, Inference, autocast, precision, target_ranks
from hsfiq.model.scorer.job import SAVE_EVERY, Callback, Optimizer, Progress, RunFolder, Step
from hsfiq.model.scorer.loading import load_parameters
from hsfiq.model.scorer.negatives import Definition, define, defined_at, from_tensors
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss, relevance, trained_parameters
from hsfiq.model.system_recipes import SystemRecipe

# Recall on the validation triplets, which selects the best epoch.


class Places(NamedTuple):
    """Where the targets of a corpus rank, 1 being the best."""

    ranks: Tensor  # [Q] int64, among the corpus
    subset_ranks: Tensor  # [q] int64, among the image sets of the queries that have one (CIRR)


def validate(
    data: TrainingData, recipe: Recipe | SystemRecipe, inference: Inference
) -> dict[str, float]:
    """Recall@k for the recipe's ks, each the mean over the corpora, and the `mean` of the figures.

    On CIRR the corpus excludes the reference, as in its benchmark; elsewhere it stays. Where
    triplets have image sets, Recall_subset@1 is one of the figures.
    """
    without_reference = recipe.dataset == "cirr"
    corpora = places(data, inference, recipe.pooling, without_reference=without_reference).values()
    values = {
        f"recall@{k}": mean((corpus.ranks <= k).double().mean().item() for corpus in corpora)
        for k in recipe.val_recall
    }
    subset_ranks = torch.cat([corpus.subset_ranks for corpus in corpora])
    if len(subset_ranks):
        values["recall_subset@1"] = (subset_ranks == 1).double().mean().item()
    return {**values, "mean": mean(values.values())}


def ranks(
    data: TrainingData, inference: Inference, pooling: Pooling, *, without_reference: bool
) -> dict[str, Tensor]:
    """The targets' ranks in each corpus: [Q] int64, 1 being the best; raises as `places`."""
    by_corpus = places(data, inference, pooling, without_reference=without_reference)
    return {corpus: placed.ranks for corpus, placed in by_corpus.items()}


def places(
    data: TrainingData, inference: Inference, pooling: Pooling, *, without_reference: bool
) -> dict[str, Places]:
    """Rank the validation targets in each corpus and, on CIRR, in their image sets.

    Diverged if a vector is not finite; UnreadableInput if a reference that is to be excluded is
    not in its corpus.
    """
    by_corpus = {}
    for corpus, rows in rows_by_pool(data.val).items():
        images = data.corpora[corpus]
        column = {image: i for i, image in enumerate(images)}
        examples = [data.val[row] for row in rows]
        gallery = inference.gallery(images)  # [N, L, D]
        queries = inference.queries(
            [example.reference for example in examples],
            [mining_text(example.captions) for example in examples],
        )  # [Q, D]
        targets = torch.tensor([column[example.target] for example in examples])  # [Q]
        excluded = columns_of_references(column, examples) if without_reference else None  # [Q]
        members = columns_of_subsets(column, examples)  # [Q, M]
        parts, subset_parts = [], []
        for start in range(0, len(queries), CHUNK):
            part = slice(start, start + CHUNK)
            scores = relevance(queries[part], gallery, pooling, chunk=CHUNK)  # [n, N]
            wanted = targets[part].to(scores.device)  # [n]
            others = None if excluded is None else excluded[part].to(scores.device)  # [n]
            parts.append(target_ranks(scores, wanted, others).cpu())  # [n]
            within = members[part].to(scores.device)  # [n, M]
            subset_parts.append(ranks_among(scores, wanted, within).cpu())  # [n]
        has_subset = torch.tensor([bool(example.subset) for example in examples])  # [Q]
        by_corpus[corpus] = Places(torch.cat(parts), torch.cat(subset_parts)[has_subset])
    return by_corpus


def ranks_among(scores: Tensor, targets: Tensor, members: Tensor) -> Tensor:
    """Rank targets [B] among columns `members` [B, M], as `target_ranks` does: [B] int64.

    A row shorter than M is filled up with its target.
    """
    column = targets.unsqueeze(1)  # [B, 1]
    target_scores, member_scores = scores.gather(1, column), scores.gather(1, members)
    level = (member_scores == target_scores) & (members < column)  # [B, M]
    return ((member_scores > target_scores) | level).sum(dim=1) + 1


def columns_of_subsets(column: Mapping[str, int], examples: Sequence[Example]) -> Tensor:
    """The columns of the images of each image set, filled up with the target: [Q, M] int64."""
    sets = [[column[i] for i in example.subset if i in column] for example in examples]
    longest = max(map(len, sets))
    return torch.tensor(
        [
            [*columns, *([column[example.target]] * (longest - len(columns)))]
            for columns, example in zip(sets, examples, strict=True)
        ],
        dtype=torch.int64,
    )


def columns_of_references(column: Mapping[str, int], examples: Sequence[Example]) -> Tensor:
    """The references' columns in their corpus: [Q] int64."""
    for example in examples:
        if example.reference not in column:
            raise UnreadableInput(
                f"triplet {example.triplet_id}",
                f"its reference {example.reference!r} is not in the corpus {example.pool!r}",
                "add it to the split's file of images",
            )
    return torch.tensor([column[example.reference] for example in examples])


@dataclass(frozen=True, slots=True)
class Batch:
    """This process's share of a step's triplets."""

    triplet_ids: list[str]
    texts: list[str]
    references: Tensor  # [b, P, W] tokens
    targets: Tensor  # [b, P, W]
    negatives: Tensor | None  # [b, P, W]; None for the batch's other targets
    weight: float
    """Of each triplet in the loss: 1 / n; 0 if this process has none and stands in with one."""
    n: int
    """Triplets of the step, all processes together."""

    def split(self, n_parts: int) -> list[Batch]:
        """Cut the batch into at most `n_parts` parts of the same weight per triplet."""
        size = -(-len(self.texts) // n_parts)
        return [
            replace(
                self,
                triplet_ids=self.triplet_ids[part],
                texts=self.texts[part],
                references=self.references[part],
                targets=self.targets[part],
                negatives=None if self.negatives is None else self.negatives[part],
            )
            for part in (slice(i, i + size) for i in range(0, len(self.texts), size))
        ]


class Trainer:
    def __init__(
        self,
        scorer: Scorer,
        data: TrainingData,
        recipe: Recipe,
        tokens: TokenSource,
        folder: RunFolder,
        distributed: Distributed,
        callbacks: Sequence[Callback],
        save_every: float = SAVE_EVERY,
    ) -> None:
        """Start a run with a scorer on the device of `distributed`, or resume the one in `folder`.

        UnreadableInput if the folder holds another run, or a broken checkpoint, and for `in-batch`
        in several processes.
        """
        if recipe.strategy == "in-batch" and distributed.size > 1:
            raise UnreadableInput(
                "strategy=in-batch", "trains in one process", "start hsfiq without torchrun"
            )
        self.scorer, self.data, self.recipe, self.tokens = scorer, data, recipe, tokens
        self.folder, self.distributed, self.callbacks = folder, distributed, callbacks
        self.parameters = trained_parameters(scorer)
        self.dtype = precision(recipe.precision, distributed.device)
        self.inference = Inference(scorer.encoder, tokens, distributed)
        self.optimizer = Optimizer(
            self.parameters, recipe, recipe.weight_decay, distributed.device, self.dtype
        )
        self.progress = Progress()
        self.definition: Definition | None = None
        self.restore()
        self.module: nn.Module = scorer
        if distributed.size > 1:
            self.module = in_parallel(scorer, distributed.device)
        self.save_every, self.saved_at = save_every, monotonic()

    def train(self) -> None:
        """Train to the last epoch; Diverged leaves the last checkpoint sound."""
        if self.progress.epoch == self.recipe.epochs:
            return
        n_steps = -(-len(self.data.train) // self.recipe.batch)
        for callback in self.callbacks:
            callback.started(self.progress, n_steps, self.recipe.epochs)
        with self.divergence_explained():
            while self.progress.epoch < self.recipe.epochs:
                self.train_epoch(n_steps)
        self.distributed.wait()  # until the first process has written the last checkpoint

    def train_epoch(self, n_steps: int) -> None:
        """Train on every triplet once, from the next step on, and validate."""
        epoch = self.progress.epoch
        definition = self.current_definition(epoch)
        self.optimizer.set_lr(self.recipe.lr_at(epoch))
        self.scorer.train()
        with closing(prefetched(self.batches(epoch, self.progress.step, definition))) as batches:
            for batch in batches:
                loss, accuracy = self.step(batch)
                step = Step(epoch, self.progress.step, n_steps, batch.n, loss, accuracy)
                for callback in self.callbacks:
                    callback.stepped(step)
                self.progress.count(batch.n, loss, accuracy)
                if monotonic() - self.saved_at > self.save_every and self.progress.step < n_steps:
                    self.save()
        require_finite(self.parameters)
        self.progress.end_epoch(
            lr=self.recipe.lr_at(epoch),
            temperature=self.scorer.encoder.temperature.item(),
            val=validate(self.data, self.recipe, self.inference),
        )
        for callback in self.callbacks:
            callback.ended(self.progress.epochs[-1])
        self.save()

    def current_definition(self, epoch: int) -> Definition:
        """The negatives that an epoch draws from; redefined at the start of a period."""
        if self.definition is None or self.definition.epoch != defined_at(self.recipe, epoch):
            self.definition = define(
                self.data,
                self.recipe,
                epoch,
                self.inference,
                self.scorer.encoder.temperature.item(),
                self.distributed,
            )
            self.progress.definitions.append(self.definition.to_json())
            for callback in self.callbacks:
                callback.defined(self.definition)
        return self.definition

    def batches(self, epoch: int, first: int, definition: Definition) -> Iterator[Batch]:
        """This process's share of each batch of an epoch, from step `first` on."""
        n, seed = len(self.data.train), self.recipe.seed
        order = torch.randperm(n, generator=generator(seed, "order", epoch))  # [Q]
        captions = torch.rand(n, generator=generator(seed, "captions", epoch))  # [Q]
        negatives = definition.columns[:, epoch - definition.epoch]  # [Q]
        for start in range(first * self.recipe.batch, n, self.recipe.batch):
            batch = order[start : start + self.recipe.batch]  # [B]
            share = self.distributed.share(batch)  # [b]
            # Every process takes part in every step: without a share, with a triplet of weight 0.
            weight = 1 / len(batch) if len(share) else 0.0
            rows = share if len(share) else batch[:1]  # [b]
            yield self.read(rows, captions[rows], negatives[rows], weight, len(batch))

    def read(self, rows: Tensor, captions: Tensor, columns: Tensor, weight: float, n: int) -> Batch:
        """Read the texts and tokens of training triplets `rows` [b] and of their negatives.

        `captions` [b] are uniform numbers that choose each triplet's text, `columns` [b] the
        negatives in their pools; the last two are as in `Batch`.
        """
        triplets = [self.data.train[row] for row in rows.tolist()]
        pools = [self.data.pools[triplet.pool] for triplet in triplets]
        images = [
            *(triplet.reference for triplet in triplets),
            *(triplet.target for triplet in triplets),
        ]
        if self.recipe.strategy != "in-batch":
            images += [pool[column] for pool, column in zip(pools, columns.tolist(), strict=True)]
        tokens = staged(self.tokens.tokens(images), self.distributed.device)
        references, targets, *rest = tokens.chunk(len(images) // len(triplets))  # [b, P, W]
        return Batch(
            triplet_ids=[triplet.triplet_id for triplet in triplets],
            texts=[
                self.scorer.encoder.clean_text(
                    training_text(triplet.captions, self.recipe.captions, u)
                )
                for triplet, u in zip(triplets, captions.tolist(), strict=True)
            ],
            references=references,
            targets=targets,
            negatives=rest[0] if rest else None,
            weight=weight,
            n=n,
        )

    def step(self, batch: Batch) -> tuple[float, float]:
        """Take one step of the optimiser; Diverged if the loss is not finite.

        The result is the mean loss and the share of targets scored above their negatives, over the
        batches of all processes.
        """
        place = (self.recipe.seed, "step", self.progress.epoch, self.progress.step)
        torch.manual_seed(seed_for(*place, self.distributed.rank))  # for dropout
        sums = torch.zeros(2, device=self.distributed.device)  # loss, correct
        parts = batch.split(self.recipe.accumulate)
        for i, part in enumerate(parts):
            with self.gradient_exchange(is_last=i == len(parts) - 1):
                margins = self.margins(self.module, part)  # [b]
                losses = bradley_terry_loss(margins) * part.weight  # [b]
                # DistributedDataParallel takes the mean over processes; the loss is their sum.
                self.optimizer.backward(losses.sum() * self.distributed.size)
            correct = (margins > 0).sum() * part.weight
            sums += torch.stack([losses.detach().sum(), correct])
        loss, accuracy = self.distributed.total(sums).tolist()
        if not isfinite(loss):
            raise Diverged(self.divergence(parts))
        self.optimizer.step()
        return loss, accuracy

    def margins(self, module: nn.Module, batch: Batch) -> Tensor:
        """The forward pass: [b] log odds that each target is preferred."""
        device = self.distributed.device
        with autocast(device, self.dtype):
            margins: Tensor = module(
                moved(batch.references, device),
                batch.texts,
                moved(batch.targets, device),
                None if batch.negatives is None else moved(batch.negatives, device),
            )
        return margins

    def gradient_exchange(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Let processes exchange gradients once a step, with its last part."""
        if isinstance(self.module, DistributedDataParallel) and not is_last:
            return self.module.no_sync()
        return nullcontext()

    def save(self) -> None:
        """Write a checkpoint, in the first process; Diverged if a weight is not finite.

        The processes' clocks may disagree on whether one is due; the others wait for the first one
        at their next exchange.
        """
        self.saved_at = monotonic()
        if self.distributed.is_first and self.definition is not None:
            require_finite(self.parameters)
            for callback in self.callbacks:
                callback.saving()
            state = self.optimizer.tensors() | self.definition.tensors()
            self.folder.save(self.progress, self.parameters, state)
            self.saved_at = monotonic()

    def restore(self) -> None:
        checkpoint = self.folder.last()
        if checkpoint is None:
            return
        self.progress = Progress(**checkpoint.about["progress"])
        load_parameters(checkpoint, self.scorer)
        state = checkpoint.tensors("state")
        self.optimizer.load(state)
        self.definition = from_tensors(state, self.progress.definitions[-1])

    def divergence(self, parts: Sequence[Batch]) -> str:
        """The message: which module first gave a number not finite, and on which triplets."""
        for part in parts:
            name = first_not_finite(self.scorer, partial(self.margins, self.scorer, part))
            if name is not None:
                ids = [*part.triplet_ids[:3], *(["..."] if len(part.triplet_ids) > 3 else [])]
                return f"the loss is not finite; first seen in {name}, triplets {', '.join(ids)}"
        return "the loss is not finite, in another process"

    @contextmanager
    def divergence_explained(self) -> Iterator[None]:
        """Add to a divergence the epoch and step, which checkpoint is kept, and what may help."""
        try:
            yield
        except Diverged as error:
            place = f"epoch {self.progress.epoch}, step {self.progress.step}"
            kept = "no checkpoint was written"
            if self.folder.last() is not None:
                kept = "the last checkpoint is intact"
            advice = "try a lower lr, clip_norm=1, or precision=fp32"
            raise Diverged(f"{place}: {error}; {kept}; {advice}") from error


def in_parallel(scorer: Scorer, device: torch.device) -> DistributedDataParallel:
    """The scorer in every process, without what is not on the device: a cached image encoder."""
    tensors = (*scorer.named_parameters(), *scorer.named_buffers())
    elsewhere = [name for name, tensor in tensors if tensor.device.type != device.type]
    ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model  # noqa: SLF001
    ignore(scorer, elsewhere)
    return DistributedDataParallel(scorer)
