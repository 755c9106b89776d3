"""An index for corpora that are too large to score every image for every query.

It is faiss' inverted file (Jegou et al., PAMI 2011): vectors are grouped around centres, and a
query is compared with the groups of the nearest centres alone. So it can miss images, and
`recall_at` says how many of the exact lists it found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from hsfiq.model.evaluation.rankings.top_k import Ranked

TRAINING_PER_CENTRE = 40
"""Vectors for each centre that faiss' clustering wants at least."""


class Index:
    """The vectors of a corpus, held in memory: N x L x D numbers of 4 bytes."""

    def __init__(self, sample: Tensor, n_centres: int, seed: int) -> None:
        """Find the centres from a sample [n, D] of the corpus; `n_centres` is n at most."""
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
        """Add the next images of the corpus: [n, L, D]."""
        self._n_vectors = images.shape[1]
        self._index.add(images.flatten(0, 1).float().cpu().numpy())
        self._n_images += len(images)

    def search(self, queries: Tensor, k: int, probes: int) -> Ranked:
        """The best k images of each query [Q, D] in its nearest `probes` groups.

        Equal scores are in the order of the corpus. A query whose groups hold fewer images has
        columns of -1 and scores of -infinity at the end.
        """
        self._index.nprobe = min(probes, self.n_centres)
        n_found = min(k, self._n_images) * self._n_vectors
        scores, rows = self._index.search(queries.float().cpu().numpy(), n_found)
        return best_images(
            torch.from_numpy(scores), torch.from_numpy(rows), self._n_vectors, min(k, n_found)
        )


def centres_for(n_vectors: int) -> int:
    """The number of centres that faiss' guide suggests for so many vectors: 4 sqrt(N)."""
    return max(int(4 * math.sqrt(n_vectors)), 1)


def best_images(scores: Tensor, rows: Tensor, n_vectors: int, k: int) -> Ranked:
    """Each image once, by its best vector: scores and rows of vectors [Q, M] -> [Q, k].

    Rows are -1 where nothing was found.
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
    return Ranked(kept_columns, kept_scores)


def recall_at(exact: Iterable[set[int]], approximate: Iterable[set[int]]) -> float:
    """The mean share of each exact list's images that the approximate list has."""
    shares = [
        len(one & other) / len(one) for one, other in zip(exact, approximate, strict=True) if one
    ]
    return sum(shares) / len(shares) if shares else math.nan
