"""A retriever without gradients: vectors, shared among the processes, and validation with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.data import Example, TrainingData, mining_text, rows_by_pool
from hsfiq.model.encoders.encoder import Retriever
from hsfiq.model.image_tokens import MoreTokens, TokenSource
from hsfiq.model.recipes import Pooling, Recipe
from hsfiq.model.runtime import Distributed, Diverged, moved, prefetched, staged
from hsfiq.model.scorer.scorer import relevance
from hsfiq.model.system_recipes import SystemRecipe

BATCH = 64
"""Images or queries that the encoder takes at once."""

CHUNK = 512
"""Images projected at a time if a corpus is too large for memory; a multiple of `BATCH`."""


class Inference:
    """A retriever in eval mode, computing in fp32 whatever precision it was trained in.

    In bf16, a cosine near 0.65 has steps of 1/256, which is 0.06 of a temperature of 0.07: close
    scores become ties. The frozen image encoder has its own precision, see `tokens`.
    """

    def __init__(
        self,
        retriever: Retriever,
        tokens: TokenSource,
        distributed: Distributed,
    ) -> None:
        """The retriever is on the device of `distributed`; each process encodes its share."""
        self._retriever = retriever
        self._tokens = tokens
        self._distributed = distributed

    def with_tokens(self, tokens: TokenSource) -> Inference:
        """The same retriever on other tokens."""
        return Inference(self._retriever, tokens, self._distributed)

    def with_more(self, tokens: Mapping[str, Tensor]) -> Inference:
        """The same retriever on the same images and on further ones, whose tokens are [P, W]."""
        return self.with_tokens(MoreTokens(self._tokens, tokens))

    def gallery(self, image_ids: Sequence[str]) -> Tensor:
        """Project images: N ids -> [N, L, D] float32; Diverged if a vector is not finite."""

        def project(tokens: Tensor, _: list[int]) -> Tensor:
            return self._retriever.gallery(tokens)

        return self._encode(image_ids, project)

    def galleries(self, image_ids: Sequence[str]) -> Iterator[Tensor]:
        """Project images, `CHUNK` at a time: yields [n, L, D] float32; raises as `gallery`."""
        for start in range(0, len(image_ids), CHUNK):
            yield self.gallery(image_ids[start : start + CHUNK])

    def queries(self, references: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Compose references and texts: [Q, D] float32; raises as `gallery`."""

        def compose(tokens: Tensor, rows: list[int]) -> Tensor:
            return self._retriever.compose(
                tokens, [self._retriever.clean_text(texts[i]) for i in rows]
            )

        return self._encode(references, compose)

    @torch.no_grad()
    def _encode(
        self, image_ids: Sequence[str], encode: Callable[[Tensor, list[int]], Tensor]
    ) -> Tensor:
        """Encode this process's share of the rows, given with their tokens; gather all shares."""
        n, device = len(image_ids), self._distributed.device
        # A process without a share encodes one row all the same: it has to join in gathering.
        share = self._distributed.share(torch.arange(n)).tolist() or [0]
        batches = [share[start : start + BATCH] for start in range(0, len(share), BATCH)]
        read = (staged(self._tokens.tokens([image_ids[i] for i in b]), device) for b in batches)
        with evaluating(self._retriever), closing(prefetched(read)) as ahead:
            pairs = zip(ahead, batches, strict=True)
            parts = [encode(moved(tokens, device), rows) for tokens, rows in pairs]
        vectors = self._distributed.gather(torch.cat(parts), n)
        if not vectors.isfinite().all():
            raise Diverged("the model gives vectors that are not finite numbers")
        return vectors


def precision(name: str, device: torch.device) -> torch.dtype:
    """The arithmetic's dtype: `auto` is bf16 on a GPU that has it, else fp16; fp32 on a CPU."""
    if name == "fp16" and device.type == "cpu":  # which has no gradient scaler
        raise UnreadableInput("precision=fp16", "needs a GPU", "on a CPU: bf16, fp32 or auto")
    if name != "auto":
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    if device.type != "cuda":
        return torch.float32
    # Older GPUs only emulate bf16, slowly; `torch.cuda.is_bf16_supported` says yes to that.
    has_bf16 = torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.bfloat16 if has_bf16 else torch.float16


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


@contextmanager
def evaluating(retriever: Retriever) -> Iterator[None]:
    if not retriever.training:  # changing the mode of every module takes longer than a query
        yield
        return
    retriever.train(mode=False)
    try:
        yield
    finally:
        retriever.train()


# Where the target ranks among a corpus, and checks of columns and scores.


def target_ranks(scores: Tensor, targets: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Rank targets [B] among scores [B, N], the best being 1: [B] int64.

    Images of the target's score that come before it in the pool count as ranked above it, so equal
    scores are no advantage. Columns in `excluded` [B] do not count: CIRR takes the reference out of
    the pool.

    Raises:
        UnreadableInput: a column outside the pool, the target excluded, or a score not finite.
    """
    require_columns(targets, scores.shape[1], "target")
    require_finite(scores)
    column = targets.unsqueeze(1)  # [B, 1]
    places = torch.arange(scores.shape[1], device=scores.device)  # [N]
    target_scores = scores.gather(1, column)  # [B, 1]
    ahead = (scores > target_scores) | ((scores == target_scores) & (places < column))  # [B, N]
    if excluded is not None:
        require_columns(excluded, scores.shape[1], "excluded image")
        if (same := (excluded == targets).nonzero()).numel():
            raise UnreadableInput(
                f"query {int(same[0])}", "its target is excluded from the pool", "check its triplet"
            )
        ahead = ahead.scatter(1, excluded.unsqueeze(1), value=False)
    return ahead.sum(dim=1) + 1


def require_columns(columns: Tensor, n_images: int, role: str) -> None:
    """Raise UnreadableInput if a column [B] is not in a pool of `n_images`."""
    outside = ((columns < 0) | (columns >= n_images)).nonzero()
    if outside.numel():
        row = int(outside[0])
        raise UnreadableInput(
            f"query {row}",
            f"its {role} is not in the pool (column {int(columns[row])} of {n_images})",
            "add the image to the pool or leave the query out",
        )


def require_finite(scores: Tensor) -> None:
    """Raise UnreadableInput if a score [B, N] is not finite: the scorer has diverged."""
    # Checking the sum is several times cheaper; it is finite only if all scores are, but it may
    # overflow where they all are.
    if not scores.sum().isfinite() and not scores.isfinite().all():
        raise UnreadableInput(
            "scorer",
            "gives scores that are infinite or not a number: it has diverged",
            "use an earlier checkpoint and a lower learning rate",
        )


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
