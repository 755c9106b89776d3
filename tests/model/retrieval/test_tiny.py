"""The lengths of the small towers' vectors after pre-training."""

from __future__ import annotations

import pytest
import torch

from hsfiq.drawn import garment_of
from hsfiq.model.image_tokens import TokenSource
from hsfiq.model.retrieval.tiny import TinyTowers, equalise_lengths
from tests.model.scorer.helpers import Drawn


@torch.no_grad()
def test_lengths_are_one_on_average_and_cosines_stay(drawn: Drawn, tokens: TokenSource) -> None:
    towers = TinyTowers(torch.Generator().manual_seed(0))
    garments = [garment_of(image) for image in sorted(drawn.data.images)[:20]]
    pixels = tokens.tokens([garment.image_id for garment in garments])  # [N, P, W]
    texts = [f"a garment in colour {row}" for row in range(len(garments))]
    before = towers.match(pixels, texts)  # [N, N]
    assert towers.image_vectors(pixels).norm(dim=1).mean() > 2
    equalise_lengths(towers, garments, tokens, seed=0)
    torch.testing.assert_close(towers.match(pixels, texts), before)
    assert towers.image_vectors(pixels).norm(dim=1).mean().item() == pytest.approx(1, rel=1e-4)
    assert towers.text_vectors(texts).norm(dim=1).mean().item() == pytest.approx(1, rel=0.2)
