"""Recall@k on the validation triplets, which selects the best epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

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


def validate(
    data: TrainingData, recipe: Recipe | SystemRecipe, inference: Inference
) -> dict[str, float]:
    """Recall@k for the recipe's ks, each the mean over the corpora, and their own `mean`.

    On CIRR the corpus excludes the reference, as in its benchmark; elsewhere it stays.
    """
    without_reference = recipe.dataset == "cirr"
    by_corpus = ranks(data, inference, recipe.pooling, without_reference=without_reference)
    values = {
        f"recall@{k}": mean((ranks <= k).double().mean().item() for ranks in by_corpus.values())
        for k in recipe.val_recall
    }
    return {**values, "mean": mean(values.values())}


def ranks(
    data: TrainingData, inference: Inference, pooling: Pooling, *, without_reference: bool
) -> dict[str, Tensor]:
    """The targets' ranks in each corpus: [Q] int64, 1 being the best.

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
        parts = []
        for start in range(0, len(queries), CHUNK):
            part = slice(start, start + CHUNK)
            scores = relevance(queries[part], gallery, pooling, chunk=CHUNK)  # [n, N]
            others = None if excluded is None else excluded[part].to(scores.device)  # [n]
            parts.append(target_ranks(scores, targets[part].to(scores.device), others))  # [n]
        by_corpus[corpus] = torch.cat(parts).cpu()  # [Q]
    return by_corpus


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
