"""Ranking a large corpus for many queries, from a stream of its projected images.

Memory holds a chunk of the corpus and the k best images so far of each query, never all scores or
all images. Images with equal scores are ranked in the order of the corpus, as
`model.scorer.ranks.target_ranks` does, so that a ranking does not depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hsfiq.model.recipes.values import Pooling
from hsfiq.model.scorer.ranks import require_columns, require_finite
from hsfiq.model.scorer.scorer import relevance

QUERIES = 512
"""Queries scored at once against a chunk."""

_LOW = 2**32 - 1
"""The lower half of a key: the largest number of images of a corpus."""


class Block(NamedTuple):
    """Scores of some queries for some images: a block of the complete matrix [Q, N]."""

    rows: slice
    first: int
    scores: Tensor
    """[b, n] of the queries `rows` and the images from `first` on."""


def scored_blocks(queries: Tensor, gallery: Iterable[Tensor], pooling: Pooling) -> Iterator[Block]:
    """Score every query against every image, by blocks; UnreadableInput if a score is not finite.

    Queries are [Q, D], on the device that computes; `gallery` is the corpus in its order, in chunks
    [n, L, D]. Each chunk gives its scores for `QUERIES` queries at a time, which takes
    n L (D + QUERIES) numbers of memory.
    """
    first = 0
    for images in gallery:
        for start in range(0, len(queries), QUERIES):
            rows = slice(start, start + QUERIES)
            scores = relevance(queries[rows], images, pooling, chunk=len(images))  # [b, n]
            require_finite(scores)
            yield Block(rows, first, scores)
        first += len(images)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Each query's best images, best first: columns of the corpus [Q, k] and scores [Q, k]."""

    columns: Tensor
    scores: Tensor


class TopK:
    """Keeps the k best images of each query, from blocks in the order of the corpus.

    It holds Q x k numbers, and b x (k + n) more while a block is added. A score and its column form
    one integer, the key. Keys are distinct, so that the result does not depend on how a device
    breaks ties.
    """

    def __init__(self, queries: int, k: int, excluded: Tensor | None = None) -> None:
        """Start without blocks; `excluded` are [Q] columns of no candidates (CIRR's references)."""
        self._k = k
        self._excluded = excluded
        self._best: list[Tensor | None] = [None] * -(-queries // QUERIES)
        self._images = 0

    def add(self, block: Block) -> None:
        scores = block.scores
        columns = torch.arange(scores.shape[1], device=scores.device) + block.first  # [n]
        if self._excluded is not None:
            own = self._excluded[block.rows].to(columns)  # [b]
            scores = scores.masked_fill(columns == own.unsqueeze(1), -torch.inf)
        self._images = block.first + len(columns)
        place = block.rows.start // QUERIES
        before = self._best[place]
        if before is None or before.shape[1] < self._k:
            keys = keys_of(scores, columns)  # [b, n]
            joined = keys if before is None else torch.cat([before, keys], dim=1)  # [b, k + n]
            self._best[place] = joined.topk(min(self._k, joined.shape[1]), dim=1).values
            return
        # An equal score does not replace one of an earlier column, so most rows need no sorting.
        has_better = scores.amax(dim=1) > scores_of(before[:, -1])  # [b]
        # A slice copies nothing.
        rows = slice(None) if has_better.all() else has_better.nonzero().squeeze(1)  # [r]
        joined = torch.cat([before[rows], keys_of(scores[rows], columns)], dim=1)  # [r, k + n]
        before[rows] = joined.topk(self._k, dim=1).values

    def ranked(self) -> Ranked:
        """The ranking of the complete corpus; refuse an excluded column that is not in it."""
        best = [keys for keys in self._best if keys is not None]
        if not best:
            return Ranked(torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0))
        keys = torch.cat(best)  # [Q, k]
        if self._excluded is not None:
            require_columns(self._excluded, self._images, "excluded image")
            keys = keys[:, : self._images - 1]  # the excluded image comes last
        return Ranked(_LOW - (keys & _LOW), scores_of(keys))


def keys_of(scores: Tensor, columns: Tensor) -> Tensor:
    """Integers in the order of the scores; for equal scores, in falling order of the columns.

    Scores [b, n] float32 and columns [n] int64, below 2^32, give [b, n] int64: the bits of the
    score above those of the negated column.
    """
    bits = (scores + 0.0).view(torch.int32)  # -0 becomes 0
    return (in_order(bits).long() << 32) | (_LOW - columns)


def scores_of(keys: Tensor) -> Tensor:
    return in_order((keys >> 32).int()).view(torch.float32)


def in_order(bits: Tensor) -> Tensor:
    """The bits of floats as int32 of the same order; its own inverse."""
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


class SelectedScores:
    """Keeps the scores of a few selected images of each query."""

    def __init__(self, columns: Tensor) -> None:
        """Select [Q, M] columns; a negative one stands for no image."""
        self._columns = columns
        self.scores = torch.full(columns.shape, torch.nan, device=columns.device)
        """[Q, M], NaN for an image that was in no block."""

    def add(self, block: Block) -> None:
        places = self._columns[block.rows] - block.first  # [b, M]
        inside = (places >= 0) & (places < block.scores.shape[1])
        scores = block.scores.gather(1, places.clamp(0, block.scores.shape[1] - 1))  # [b, M]
        self.scores[block.rows] = torch.where(inside, scores, self.scores[block.rows])
