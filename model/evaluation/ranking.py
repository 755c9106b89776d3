"""The best images of a large corpus for many queries, from a stream of its projected images.

Neither all scores nor all images are ever held: beside a chunk of the corpus there are the k best
so far of each query. Images of the same score are ranked as `model.scorer.ranks.target_ranks`
does, the earlier in the corpus first, so a ranking does not depend on the chunks.
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
"""Scored at once against a chunk."""

_LOW = 2**32 - 1
"""The lower half of a key; a corpus has no more images."""


class Block(NamedTuple):
    """Scores of some queries for some images: rows and columns of the whole that is never held."""

    rows: slice
    first: int
    scores: Tensor
    """[b, n] of the queries `rows` and the images from `first` on."""


def scored_blocks(queries: Tensor, gallery: Iterable[Tensor], pooling: Pooling) -> Iterator[Block]:
    """Score every query against every image, block by block.

    Args:
        queries: [Q, D], on the device that is to compute.
        gallery: the corpus in its order, in chunks [n, L, D]; each is asked for once.
        pooling: over an image's L vectors.

    Yields:
        For each chunk, its scores for `QUERIES` queries after the other: n L (D + QUERIES) numbers
        at a time.

    Raises:
        UnreadableInput: a score is infinite or no number.
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
    """Takes blocks in the corpus's order and keeps the k best images of each query.

    It holds Q x k numbers, and while it takes a block b x (k + n) more. A score and its column make
    one whole number, the key, of which no two are the same: so what is the best of a block does not
    depend on how a device breaks ties.
    """

    def __init__(self, queries: int, k: int, excluded: Tensor | None = None) -> None:
        """Begin with nothing.

        Args:
            queries: how many.
            k: images to keep for each; all where the corpus has fewer.
            excluded: [Q] columns that are no candidates: CIRR takes the reference out.
        """
        self._k = k
        self._excluded = excluded
        self._best: list[Tensor | None] = [None] * -(-queries // QUERIES)
        self._images = 0

    def add(self, block: Block) -> None:
        """Take a block."""
        scores = block.scores
        columns = torch.arange(scores.shape[1], device=scores.device) + block.first  # [n]
        if self._excluded is not None:
            own = self._excluded[block.rows].to(columns)  # [b]
            scores = scores.masked_fill(columns == own.unsqueeze(1), -torch.inf)
        keys = keys_of(scores, columns)  # [b, n]
        place = block.rows.start // QUERIES
        before = self._best[place]
        if before is not None:
            keys = torch.cat([before, keys], dim=1)  # [b, k + n]
        self._best[place] = keys.topk(min(self._k, keys.shape[1]), dim=1).values
        self._images = block.first + len(columns)

    def ranked(self) -> Ranked:
        """What the whole corpus gave.

        Raises:
            UnreadableInput: an excluded column is none of the corpus.
        """
        best = [keys for keys in self._best if keys is not None]
        if not best:
            return Ranked(torch.empty(0, 0, dtype=torch.int64), torch.empty(0, 0))
        keys = torch.cat(best)  # [Q, k]
        if self._excluded is not None:
            require_columns(self._excluded, self._images, "excluded image")
            keys = keys[:, : self._images - 1]  # it has come last
        return Ranked(_LOW - (keys & _LOW), scores_of(keys))


def keys_of(scores: Tensor, columns: Tensor) -> Tensor:
    """Whole numbers that are ordered as scores are, and of the same score by column, falling.

    Args:
        scores: [b, n] float32.
        columns: [n] int64, below 2^32.

    Returns:
        [b, n] int64: the score's bits above, those of the column, negated, below.
    """
    bits = (scores + 0.0).view(torch.int32)  # -0 becomes 0, which it is equal to
    return (in_order(bits).long() << 32) | (_LOW - columns)


def scores_of(keys: Tensor) -> Tensor:
    """The scores again, from keys of any shape."""
    return in_order((keys >> 32).int()).view(torch.float32)


def in_order(bits: Tensor) -> Tensor:
    """The bits of floats as int32 numbers of the same order, and back."""
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


class Picked:
    """Takes blocks and keeps the scores of a few chosen images of each query."""

    def __init__(self, columns: Tensor) -> None:
        """Choose [Q, M] columns; a negative one stands for no image."""
        self._columns = columns
        self.scores = torch.full(columns.shape, torch.nan, device=columns.device)
        """[Q, M], NaN for an image that has not come."""

    def add(self, block: Block) -> None:
        """Take a block."""
        places = self._columns[block.rows] - block.first  # [b, M]
        here = (places >= 0) & (places < block.scores.shape[1])
        found = block.scores.gather(1, places.clamp(0, block.scores.shape[1] - 1))  # [b, M]
        self.scores[block.rows] = torch.where(here, found, self.scores[block.rows])
