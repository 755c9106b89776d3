"""Queries and galleries of many images, without gradients, shared out among the processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from hsfiq.model.features.tokens import TokenSource
from hsfiq.model.runtime.diagnosis import Diverged
from hsfiq.model.runtime.distributed import World
from hsfiq.model.scorer.scorer import Scorer

BATCH = 64
"""Images, or queries, that go through the encoder at once."""

CHUNK = 512
"""Images that are projected at a time where a corpus is too large to be held; whole batches."""


class Inference:
    """A scorer at work: in eval mode, in the precision of its training."""

    def __init__(
        self, scorer: Scorer, tokens: TokenSource, world: World, dtype: torch.dtype
    ) -> None:
        """Take what is needed to encode.

        Args:
            scorer: on the world's device.
            tokens: of every image that will be asked for.
            world: each process encodes its share.
            dtype: of the arithmetic where it is not float32.
        """
        self._scorer = scorer
        self._tokens = tokens
        self._world = world
        self._dtype = dtype

    @torch.no_grad()
    def gallery(self, image_ids: Sequence[str]) -> Tensor:
        """Project images: N ids -> [N, L, D] float32.

        Raises:
            Diverged: the scorer gives numbers that are none.
        """
        mine = [image_ids[i] for i in self._share(len(image_ids))]
        with evaluating(self._scorer), self._autocast():
            parts = [
                self._scorer.encoder.gallery(self._read(mine[start : start + BATCH])).float()
                for start in range(0, len(mine), BATCH)
            ]
        return self._together(parts, len(image_ids))

    def galleries(self, image_ids: Sequence[str]) -> Iterator[Tensor]:
        """Project images, `CHUNK` after `CHUNK`, each when it is asked for: [n, L, D] float32.

        Raises:
            Diverged: as `gallery`.
        """
        for start in range(0, len(image_ids), CHUNK):
            yield self.gallery(image_ids[start : start + CHUNK])

    @torch.no_grad()
    def queries(self, references: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Compose references and normalised texts: [Q, D] float32.

        Raises:
            Diverged: as `gallery`.
        """
        mine = self._share(len(references))
        with evaluating(self._scorer), self._autocast():
            parts = [
                self._scorer.encoder.query(
                    self._read([references[i] for i in some]), [texts[i] for i in some]
                ).float()
                for some in (mine[start : start + BATCH] for start in range(0, len(mine), BATCH))
            ]
        return self._together(parts, len(references))

    def _share(self, n: int) -> list[int]:
        # An empty share still has to take part in putting the shares together: it encodes one.
        return self._world.share(torch.arange(n)).tolist() or [0]

    def _together(self, parts: Sequence[Tensor], n: int) -> Tensor:
        vectors = self._world.together(torch.cat(list(parts)), n)
        if not vectors.isfinite().all():
            raise Diverged("the scorer gives vectors that are no numbers")
        return vectors

    def _read(self, image_ids: Sequence[str]) -> Tensor:
        return self._tokens.tokens(image_ids).to(self._world.device)

    def _autocast(self) -> AbstractContextManager[object]:
        return autocast(self._world.device, self._dtype)


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[object]:
    """Arithmetic in `dtype` where that loses little; float32 changes nothing."""
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


@contextmanager
def evaluating(scorer: Scorer) -> Iterator[None]:
    """Eval mode inside the block, and the mode that was before after it."""
    was = scorer.training
    scorer.eval()
    try:
        yield
    finally:
        scorer.train(was)
