"""Recall@k on the validation triplets, by which the best epoch is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.data.texts import mining_text, normalise
from hsfiq.model.data.triplets import Example, TrainingData
from hsfiq.model.encoders.protocol import Pooling
from hsfiq.model.negatives.redefinition import by_pool
from hsfiq.model.recipes.recipe import Recipe
from hsfiq.model.scorer.inference import CHUNK, Inference
from hsfiq.model.scorer.relevance import relevance, target_ranks


def validate(data: TrainingData, recipe: Recipe, inference: Inference) -> dict[str, float]:
    """Recall@k for the recipe's ks, the mean over the corpora, and their own `mean`.

    On CIRR the reference is taken out of the corpus, as its benchmark does; elsewhere it stays.
    """
    found = ranks(data, inference, recipe.pooling, without_reference=recipe.dataset == "cirr")
    values = {
        f"recall@{k}": mean((ranks <= k).double().mean().item() for ranks in found.values())
        for k in recipe.val_recall
    }
    return {**values, "mean": mean(values.values())}


def ranks(
    data: TrainingData, inference: Inference, pooling: Pooling, *, without_reference: bool
) -> dict[str, Tensor]:
    """The target's rank for every validation triplet.

    Args:
        data: its `val` against its `corpora`.
        inference: encodes.
        pooling: over an image's token vectors.
        without_reference: whether the reference is no candidate.

    Returns:
        corpus -> [Q] int64, 1 being the best.

    Raises:
        Diverged: the scorer gives numbers that are none.
        UnreadableInput: a reference that is to be taken out of its corpus is not in it.
    """
    found = {}
    for corpus, places in by_pool(data.val).items():
        images = data.corpora[corpus]
        column = {image: i for i, image in enumerate(images)}
        examples = [data.val[i] for i in places.tolist()]
        gallery = inference.gallery(images)  # [N, L, D]
        queries = inference.queries(
            [it.reference for it in examples],
            [normalise(mining_text(it.captions)) for it in examples],
        )  # [Q, D]
        targets = torch.tensor([column[it.target] for it in examples], device=queries.device)
        excluded = None
        if without_reference:
            excluded = references_among(column, examples).to(queries.device)
        found[corpus] = torch.cat(
            [
                target_ranks(
                    relevance(queries[part], gallery, pooling, chunk=CHUNK),
                    targets[part],
                    None if excluded is None else excluded[part],
                )
                for part in (slice(at, at + CHUNK) for at in range(0, len(queries), CHUNK))
            ]
        ).cpu()
    return found


def references_among(column: Mapping[str, int], examples: Sequence[Example]) -> Tensor:
    """The columns of the references, [Q] int64.

    Raises:
        UnreadableInput: one is not in the corpus.
    """
    for it in examples:
        if it.reference not in column:
            raise UnreadableInput(
                f"triplet {it.triplet_id}",
                f"its reference {it.reference!r} is not in the corpus {it.pool!r}",
                "add it to the split's file of images",
            )
    return torch.tensor([column[it.reference] for it in examples])
