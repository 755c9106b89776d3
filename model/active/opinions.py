"""A scorer's uncertainty, as several opinions on the same sets.

The opinions are those of several checkpoints, an ensemble (Lakshminarayanan et al. 2017), or of one
checkpoint with MC-dropout (Gal and Ghahramani 2016) of entries of the query vectors. An opinion
thus costs a few products with any encoder, even one that was trained without dropout.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hsfiq.active.candidates import PossibleSet
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.release_scores.set_scores import indexed
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.scorer import paired_relevance, scores_of_sets

SAMPLES = 16
"""Opinions of one scorer."""
RATE = 0.3
"""Mean share of the entries that dropout removes."""
CHUNK = 1024
"""Sets scored at a time, to bound the memory for their images' vectors."""


def dropout_masks(width: int, generator: torch.Generator) -> Tensor:
    """Factors of the queries' entries, one row per opinion: [SAMPLES, width]."""
    kept = torch.rand(SAMPLES, width, generator=generator) >= RATE
    return kept.float() / (1 - RATE)


def opinions(
    sets: Sequence[PossibleSet],
    dropout: torch.Generator | None,
    pooling: Pooling,
    inference: Inference,
) -> Tensor:
    """[J, S] float64 on the CPU: scores of sets, the mean over a set's images (CIRQRS eq. 7).

    `dropout` draws the masks of J = SAMPLES opinions; None for no dropout, J = 1.
    """
    column = indexed(image for possible in sets for image in possible.images)
    row = indexed(possible.scorer_query for possible in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [text for _, text in row]
    )  # [Q, D]
    images = torch.tensor([[column[image] for image in entry.images] for entry in sets])  # [S, k]
    query_of = torch.tensor([row[entry.scorer_query] for entry in sets])  # [S]
    variants = [queries]
    if dropout is not None:
        masks = dropout_masks(queries.shape[1], dropout)
        variants = [queries * mask.to(queries) for mask in masks]
    scores = torch.empty(len(variants), len(sets), dtype=torch.float64)
    for start in range(0, len(sets), CHUNK):
        part = slice(start, start + CHUNK)
        vectors = gallery[images[part].flatten()]  # [s k, L, D]
        rows = query_of[part].repeat_interleave(images.shape[1])  # [s k]
        for opinion, variant in enumerate(variants):
            relevances = paired_relevance(variant[rows], vectors, pooling)  # [s k]
            sets_of_part = relevances.view(-1, images.shape[1])  # [s, k]
            scores[opinion, part] = scores_of_sets(sets_of_part).cpu()  # [s]
    return scores
