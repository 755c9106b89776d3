"""A small encoder, pictures for it, and a check of its cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from hsfiq.model.encoders.encoder import Encoder, Preprocessing, normalise
from hsfiq.model.image_tokens import CacheReport, EncodedTokens, FeatureCache

CPU = torch.device("cpu")
PATCH, WIDTH, DIMENSIONS = 4, 6, 5


class SmallEncoder(nn.Module):
    """Satisfies `hsfiq.model.encoders.encoder.Encoder`, and counts the images it has encoded."""

    def __init__(
        self, seed: int = 0, *, preprocessing: Preprocessing | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.name = "small"
        self.preprocessing = preprocessing or Preprocessing(size=8)
        self.tokens_shape = ((self.preprocessing.size // PATCH) ** 2, WIDTH)
        generator = torch.Generator().manual_seed(seed)
        patch = scale * torch.randn(WIDTH, 3 * PATCH * PATCH, generator=generator)
        self.patch = nn.Parameter(patch, requires_grad=False)
        self.project = nn.Parameter(torch.randn(DIMENSIONS, WIDTH, generator=generator))
        self.word = nn.Parameter(torch.randn(DIMENSIONS, generator=generator))
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.n_encoded = 0

    def frozen_id(self) -> str:
        return hashlib.sha256(self.patch.numpy().tobytes()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()  # its patches are a parameter

    def image_tokens(self, pixels: Tensor) -> Tensor:
        self.n_encoded += len(pixels)
        patches = nn.functional.unfold(pixels, PATCH, stride=PATCH)  # [B, 3 * PATCH^2, P]
        # Image by image: what an image gets does not depend on its batch, to the bit.
        return torch.stack(
            [(self.patch @ image_patches).T.contiguous() for image_patches in patches]
        )

    def clean_text(self, text: str) -> str:
        return normalise(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        lengths = torch.tensor([float(len(text)) for text in texts])  # [B]
        composed = (tokens.float() @ self.project.T).mean(dim=1) + lengths[:, None] * self.word
        return nn.functional.normalize(composed, dim=-1)

    def gallery(self, tokens: Tensor) -> Tensor:
        return nn.functional.normalize(tokens.float() @ self.project.T, dim=-1)


def draw_image(path: Path, seed: int, size: tuple[int, int] = (11, 9)) -> Path:
    """Write a picture of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return path


def draw_images(folder: Path, n: int) -> dict[str, Path]:
    """Write `n` different pictures: their files by image id."""
    folder.mkdir(exist_ok=True)
    return {f"i{i}": draw_image(folder / f"i{i}.png", seed=i) for i in range(n)}


def fill(cache: FeatureCache, images: dict[str, Path], batch: int = 4) -> CacheReport:
    return cache.fill(images, batch=batch, device=CPU, workers=2)


def assert_cached_equals_encoded(
    cache: FeatureCache, encoder: Encoder, images: dict[str, Path], dtype: torch.dtype
) -> None:
    encoded = EncodedTokens(encoder, images, dtype, CPU).tokens(list(images))
    cached = cache.tokens(list(images))
    assert cached.dtype == dtype
    assert cached.equal(encoded)
