"""Ranking a part of a benchmark through an index, and how much of the exact lists that finds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hsfiq.model.evaluation.benchmarks import Part, SystemLists
from hsfiq.model.evaluation.rankings.index import (
    TRAINING_PER_CENTRE,
    Index,
    centres_for,
    recall_at,
)
from hsfiq.model.evaluation.rankings.prepared_scorer import PreparedScorer
from hsfiq.model.evaluation.rankings.scorer_lists import columns_of, query_vectors
from hsfiq.model.evaluation.rankings.top_k import TopK, scored_blocks
from hsfiq.model.recipes.values import Pooling
from hsfiq.model.release_scores.set_scores import indexed
from hsfiq.model.runtime.seeds import generator
from hsfiq.model.scorer.inference import Inference

SEED = 0
"""Of the sample that the centres are found from, and of the queries that are ranked exactly."""
CHECKED = 100
"""Queries that are ranked exactly too."""


@dataclass(frozen=True, slots=True)
class IndexLists:
    answers: SystemLists
    scores: dict[str, tuple[float, ...]]
    recall: float
    """The mean share of the exact lists that the index returned, for `n_checked` queries."""
    n_checked: int


def rank_part_by_index(
    part: Part,
    prepared: PreparedScorer,
    depth: int,
    probes: int,
    *,
    without_reference: bool,
    composing: Inference,
) -> IndexLists:
    """The lists of the queries whose reference is available, from `probes` groups of the index."""
    images = part.corpus.images or ()
    column = indexed(images)
    queries = [query for query in part.queries if query.reference in prepared.available]
    vectors = query_vectors(queries, composing)  # [Q, D]
    references = columns_of([[query.reference] for query in queries], column, vectors)[:, 0]  # [Q]
    chosen = torch.randperm(len(queries), generator=generator(SEED, "checked"))[:CHECKED]  # [C]
    excluded = references[chosen] if without_reference else None
    exact = TopK(len(chosen), depth, excluded)
    pooling = prepared.loaded.recipe.pooling
    index = Index(*sample_of(images, prepared.inference, pooling), SEED)
    first = 0
    for chunk in prepared.inference.galleries(images):
        index.add(searched(chunk, pooling))
        for block in scored_blocks(vectors[chosen.to(vectors.device)], [chunk], pooling):
            exact.add(block._replace(first=first))
        first += len(chunk)
    nearest = index.search(vectors, depth + without_reference, probes)
    lists, scores = {}, {}
    for query, reference, columns, row_scores in zip(
        queries,
        references.tolist(),
        nearest.columns.tolist(),
        nearest.scores.tolist(),
        strict=True,
    ):
        kept = [
            (i, score)
            for i, score in zip(columns, row_scores, strict=True)
            if i >= 0 and not (without_reference and i == reference)
        ][:depth]
        lists[query.query_id] = tuple(images[i] for i, _ in kept)
        scores[query.query_id] = tuple(score for _, score in kept)
    expected = [{images[i] for i in row} for row in exact.ranked().columns.tolist()]
    checked = [set(lists[queries[row].query_id]) for row in chosen.tolist()]
    return IndexLists(SystemLists(lists, {}), scores, recall_at(expected, checked), len(chosen))


def searched(images: Tensor, pooling: Pooling) -> Tensor:
    """The vectors whose best is an image's score: [n, L, D] -> [n, L, D], or [n, 1, D] of means."""
    return images.mean(dim=1, keepdim=True) if pooling == "mean" else images


def sample_of(
    images: tuple[str, ...], inference: Inference, pooling: Pooling
) -> tuple[Tensor, int]:
    """Vectors [n, D] of images drawn from the corpus, and the number of centres to find."""
    n_vectors = searched(inference.gallery(images[:1]), pooling).shape[1]
    n_centres = centres_for(len(images) * n_vectors)
    n_images = -(-n_centres * TRAINING_PER_CENTRE // n_vectors)
    order = torch.randperm(len(images), generator=generator(SEED, "centres"))[:n_images]
    sample = inference.gallery([images[i] for i in order.tolist()])  # [n, L, D]
    return searched(sample, pooling).flatten(0, 1).cpu(), n_centres
