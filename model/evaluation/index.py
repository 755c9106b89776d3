"""Ranking a part of a benchmark through an index, and its recall of the exact lists."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.evaluation import rankings
from hsfiq.model.evaluation.benchmarks import Part, SystemLists
from hsfiq.model.recipes import Pooling
from hsfiq.model.release_scores import indexed
from hsfiq.model.runtime import generator
from hsfiq.model.scorer.inference import Inference

# An index for corpora in which scoring every image for every query takes too long.
#
# This is faiss' inverted file (Jegou et al., PAMI 2011): each vector belongs to the group of its
# nearest centre, and a query is compared with the groups of its nearest centres alone. So images
# can be missed; `recall_at` is the share of the exact lists that the index returned.

TRAINING_PER_CENTRE = 40
"""Sampled vectors for each centre; with fewer, faiss' clustering warns."""


class Index:
    """Holds the vectors of a corpus of N images in memory: N x L x D numbers of 4 bytes."""

    def __init__(self, sample: Tensor, n_centres: int, seed: int) -> None:
        """Find `n_centres` centres, or n if that is less, from n vectors [n, D] of the corpus."""
        import faiss  # noqa: PLC0415 -- an extra, which takes a while to load

        self.n_centres = min(n_centres, len(sample))
        clustering = faiss.ClusteringParameters()
        clustering.seed = seed
        clustering.min_points_per_centroid = 1
        quantizer = faiss.IndexFlatIP(sample.shape[1])
        self._index: Any = faiss.IndexIVFFlat(
            quantizer, sample.shape[1], self.n_centres, faiss.METRIC_INNER_PRODUCT
        )
        self._index.cp = clustering
        self._index.train(sample.float().numpy())
        self._n_images = 0
        self._n_vectors = 1

    def add(self, images: Tensor) -> None:
        """Add the vectors of the next images, in the order of the corpus: [n, L, D]."""
        self._n_vectors = images.shape[1]
        self._index.add(images.flatten(0, 1).float().cpu().numpy())
        self._n_images += len(images)

    def search(self, queries: Tensor, k: int, probes: int) -> rankings.Ranked:
        """The k images with the highest scores in each query's `probes` nearest groups.

        Queries [Q, D] -> columns and scores [Q, k], k being N at most. Equal scores are in the
        order of the corpus. If the groups hold fewer images, columns are -1 and scores -infinity
        at the end.
        """
        self._index.nprobe = min(probes, self.n_centres)
        k = min(k, self._n_images)
        vectors = queries.float().cpu().numpy()  # [Q, D]
        # The k best images are among the k L best vectors.
        scores, rows = self._index.search(vectors, k * self._n_vectors)  # [Q, k L] each
        return best_images(torch.from_numpy(scores), torch.from_numpy(rows), self._n_vectors, k)


def centres_for(n_vectors: int) -> int:
    """4 sqrt(n): the number of centres that faiss' guide suggests for n vectors."""
    return max(int(4 * math.sqrt(n_vectors)), 1)


def best_images(scores: Tensor, rows: Tensor, n_vectors: int, k: int) -> rankings.Ranked:
    """Images by their best vectors: scores and rows of M vectors [Q, M] -> [Q, k].

    A vector's row is its image's column times L plus its place there; -1 stands for no vector.
    """
    columns = rows.div(n_vectors, rounding_mode="floor")  # [Q, M], -1 stays -1
    kept_columns = torch.full((len(rows), k), -1, dtype=torch.int64)
    kept_scores = torch.full((len(rows), k), -torch.inf)
    for query, (row_columns, row_scores) in enumerate(
        zip(columns.tolist(), scores.tolist(), strict=True)
    ):
        best: dict[int, float] = {}
        for column, score in zip(row_columns, row_scores, strict=True):
            if column >= 0:
                best[column] = max(score, best.get(column, -math.inf))
        order = sorted(best, key=lambda column: (-best[column], column))[:k]
        kept_columns[query, : len(order)] = torch.tensor(order, dtype=torch.int64)
        kept_scores[query, : len(order)] = torch.tensor([best[column] for column in order])
    return rankings.Ranked(kept_columns, kept_scores)


def recall_at(exact: Iterable[set[int]], approximate: Iterable[set[int]]) -> float:
    """The mean over queries of the share of the exact list that the approximate list has."""
    shares = [
        len(best & listed) / len(best)
        for best, listed in zip(exact, approximate, strict=True)
        if best
    ]
    return sum(shares) / len(shares) if shares else math.nan


SEED = 0
"""Of the sample that the centres are found from, and of the queries that are ranked exactly."""
CHECKED = 100
"""Queries that are also ranked exactly."""


@dataclass(frozen=True, slots=True)
class IndexLists:
    answers: SystemLists
    scores: dict[str, tuple[float, ...]]
    recall: float
    """The mean share of the exact lists that the index returned, for `n_checked` queries."""
    n_checked: int


def rank_part_by_index(
    part: Part,
    prepared: rankings.PreparedScorer,
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
    vectors = rankings.query_vectors(queries, composing)  # [Q, D]
    references = rankings.columns_of([[query.reference] for query in queries], column, vectors)[
        :, 0
    ]  # [Q]
    chosen = torch.randperm(len(queries), generator=generator(SEED, "checked"))[:CHECKED]  # [C]
    excluded = references[chosen] if without_reference else None
    exact = rankings.TopK(len(chosen), depth, excluded)
    pooling = prepared.loaded.recipe.pooling
    index = Index(*sample_of(images, prepared.inference, pooling), SEED)
    first = 0
    for chunk in prepared.inference.galleries(images):
        index.add(searched(chunk, pooling))
        for block in rankings.scored_blocks(vectors[chosen.to(vectors.device)], [chunk], pooling):
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
