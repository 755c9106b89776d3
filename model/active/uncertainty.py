"""A scorer's uncertainty: several opinions on the same sets.

Either of several checkpoints, an ensemble (Lakshminarayanan et al. 2017), or of one, by MC-dropout
(Gal and Ghahramani 2016): of the vectors in which queries and images are compared, each opinion
lacks some entries. So one opinion costs a few products, for every encoder alike, also for one that
was trained without dropout.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hsfiq.active.candidates import PossibleSet
from hsfiq.model.data.texts import normalise
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.scorer.inference import Inference
from hsfiq.model.scorer.scorer import paired_relevance
from hsfiq.model.scoring.release_scores import numbered

SAMPLES = 16
"""Opinions of one scorer."""
RATE = 0.3
"""Of the entries, how many an opinion lacks on average."""
CHUNK = 1024
"""Sets that are scored at a time: their images' vectors are brought together."""


def dropout_masks(width: int, generator: torch.Generator) -> Tensor:
    """What each opinion of one scorer multiplies the queries by: [SAMPLES, width]."""
    kept = torch.rand(SAMPLES, width, generator=generator) >= RATE
    return kept.float() / (1 - RATE)


def opinions(
    sets: Sequence[PossibleSet],
    dropout: torch.Generator | None,
    pooling: Pooling,
    inference: Inference,
) -> Tensor:
    """Score sets, the mean over a set's images (CIRQRS eq. 7), once or by MC-dropout.

    Args:
        sets: S of them, all of k images, which have tokens.
        dropout: draws what J = SAMPLES opinions lack; None for the scorer as it is, J = 1.
        pooling: over an image's token vectors.
        inference: encodes.

    Returns:
        [J, S] float64 on the CPU.
    """
    column = numbered(image for it in sets for image in it.images)
    row = numbered((it.reference, it.text) for it in sets)
    gallery = inference.gallery(list(column))  # [N, L, D]
    queries = inference.queries(
        [reference for reference, _ in row], [normalise(text) for _, text in row]
    )  # [Q, D]
    images = torch.tensor([[column[it] for it in one.images] for one in sets])  # [S, k]
    asked = torch.tensor([row[it.reference, it.text] for it in sets])  # [S]
    each = [queries]
    if dropout is not None:
        each = [queries * it.to(queries) for it in dropout_masks(queries.shape[1], dropout)]
    found = torch.empty(len(each), len(sets), dtype=torch.float64)
    for start in range(0, len(sets), CHUNK):
        part = slice(start, start + CHUNK)
        shown = gallery[images[part].flatten()]  # [s k, L, D]
        query_of = asked[part].repeat_interleave(images.shape[1])  # [s k]
        for opinion, of_queries in enumerate(each):
            scores = paired_relevance(of_queries[query_of], shown, pooling)  # [s k]
            means = scores.double().view(-1, images.shape[1]).mean(dim=1)  # [s]
            found[opinion, part] = means.cpu()
    return found
