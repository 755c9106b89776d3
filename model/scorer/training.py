"""Training a scorer (CIRQRS Algorithm 1, QuRe Algorithm 1): its batches, and a batch's loss.

Every epoch trains on each triplet once, against one negative drawn from the query's negative set.
The sets are the whole pool at first, and are redefined with the current scorer every
floor(n_epoch / n_def) epochs. The loop is in `hsfiq.model.scorer.loop`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import Checkpoint
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.recipes import Recipe
from hsfiq.model.runtime import Diverged, first_not_finite, generator, moved, seed_for, staged
from hsfiq.model.scorer.inference import autocast
from hsfiq.model.scorer.job import RunFolder, TrainingJob
from hsfiq.model.scorer.loading import load_parameters
from hsfiq.model.scorer.loop import Loop
from hsfiq.model.scorer.negatives import Definition, define, defined_at, from_tensors
from hsfiq.model.scorer.scorer import Scorer, bradley_terry_loss


@dataclass(frozen=True, slots=True)
class Batch:
    """This process's share of a step's triplets."""

    triplet_ids: list[str]
    texts: list[str]
    references: Tensor  # [b, P, W] tokens
    targets: Tensor  # [b, P, W]
    negatives: Tensor | None  # [b, P, W]; None for the batch's other targets
    weight: float
    """Of each triplet in the loss: 1 / n; 0 if this process has none and uses a placeholder."""
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


class Trainer(Loop[Batch]):
    recipe: Recipe

    def __init__(
        self,
        scorer: Scorer,
        recipe: Recipe,
        job: TrainingJob,
        tokens: TokenSource,
        folder: RunFolder,
    ) -> None:
        """Start a run with a scorer on the device of `job`, or resume the one in `folder`.

        UnreadableInput if the folder holds another run, or a broken checkpoint, and for `in-batch`
        in several processes.
        """
        if recipe.strategy == "in-batch" and job.distributed.size > 1:
            raise UnreadableInput(
                "strategy=in-batch", "trains in one process", "start hsfiq without torchrun"
            )
        super().__init__(scorer, scorer.encoder, recipe, recipe, job, tokens, folder)
        self.scorer = scorer
        self.n_steps = -(-len(self.data.train) // recipe.batch)
        self.definition: Definition | None = None
        self.restore()
        self.module: nn.Module = scorer
        if self.distributed.size > 1:
            self.module = in_parallel(scorer, self.distributed.device)

    def seed(self, epoch: int, step: int) -> int:
        return seed_for(self.recipe.seed, "step", epoch, step, self.distributed.rank)

    def batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """As in `Loop`; the negatives that the epoch draws from are defined at once."""
        return self.drawn(epoch, first, self.current_definition(epoch))

    def current_definition(self, epoch: int) -> Definition:
        """The negatives that an epoch draws from; redefined at the start of a period."""
        if self.definition is None or self.definition.epoch != defined_at(self.recipe, epoch):
            self.definition = define(
                self.data,
                self.recipe,
                epoch,
                self.inference,
                self.temperature(),
                self.distributed,
            )
            self.progress.definitions.append(self.definition.to_json())
            for callback in self.callbacks:
                callback.defined(self.definition)
        return self.definition

    def drawn(self, epoch: int, first: int, definition: Definition) -> Iterator[Batch]:
        n, seed = len(self.data.train), self.recipe.seed
        order = torch.randperm(n, generator=generator(seed, "order", epoch))  # [Q]
        captions = torch.rand(n, generator=generator(seed, "captions", epoch))  # [Q]
        negatives = definition.columns[:, epoch - definition.epoch]  # [Q]
        for start in range(first * self.recipe.batch, n, self.recipe.batch):
            batch = order[start : start + self.recipe.batch]  # [B]
            rows, weight = self.distributed.weighted_share(batch)  # [b]
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
            texts=self.texts(triplets, captions.tolist()),
            references=references,
            targets=targets,
            negatives=rest[0] if rest else None,
            weight=weight,
            n=n,
        )

    def gradients(self, batch: Batch) -> Tensor:
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
        figures = self.distributed.total(sums)
        if not figures[0].isfinite():
            raise Diverged(self.divergence(parts))
        return figures

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

    def divergence(self, parts: Sequence[Batch]) -> str:
        """The message: which module first gave a number not finite, and on which triplets."""
        for part in parts:
            name = first_not_finite(self.scorer, partial(self.margins, self.scorer, part))
            if name is not None:
                ids = [*part.triplet_ids[:3], *(["..."] if len(part.triplet_ids) > 3 else [])]
                return f"the loss is not finite; first seen in {name}, triplets {', '.join(ids)}"
        return "the loss is not finite, in another process"

    def temperature(self) -> float:
        return self.scorer.encoder.temperature.item()

    def weights(self) -> Mapping[str, Tensor]:
        return self.parameters

    def load(self, checkpoint: Checkpoint) -> None:
        load_parameters(checkpoint, self.scorer)

    def state(self) -> Mapping[str, Tensor]:
        return {} if self.definition is None else self.definition.tensors()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self.definition = from_tensors(tensors, self.progress.definitions[-1])


def in_parallel(scorer: Scorer, device: torch.device) -> DistributedDataParallel:
    """The scorer in every process, without what is not on the device: a cached image encoder."""
    tensors = (*scorer.named_parameters(), *scorer.named_buffers())
    elsewhere = [name for name, tensor in tensors if tensor.device.type != device.type]
    ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model  # noqa: SLF001
    ignore(scorer, elsewhere)
    return DistributedDataParallel(scorer)
