"""Recall on the validation triplets, which selects the best epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import NamedTuple

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.data.texts import mining_text
from hsfiq.model.data.triplets import Example, TrainingData, rows_by_pool
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.recipes.system_recipe import SystemRecipe
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.scorer.inference import CHUNK, Inference
from hsfiq.model.scorer.ranks import target_ranks
from hsfiq.model.scorer.scorer import relevance


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
