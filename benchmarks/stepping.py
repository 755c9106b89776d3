"""One side of `train-step`: builds a BLIP-2 with random weights, waits for a line, takes steps."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import softplus

from model.encoders.architectures import ARCHITECTURES
from model.encoders.blip2 import Blip2
from model.features.cache import FeatureCache
from model.relevance import paired_relevance

ROLES = ("reference", "positive", "negative")
TEXTS = ("is darker and has longer sleeves", "is red with a logo and no collar")
DTYPE = torch.float16
RELATIVE_TOLERANCE = 1e-5
"""Of a gradient's difference to the largest gradient: rounding, should kernels differ."""

Tokens = Callable[[], list[Tensor]]
"""References, positives and negatives of the batch: each [B, P, W]."""


class Stepper:
    """A model in training and its optimizer."""

    def __init__(self, blip2: Blip2, texts: Sequence[str]) -> None:
        self.blip2 = blip2.train()
        self.texts = texts
        self.trained = {n: p for n, p in blip2.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.AdamW(self.trained.values(), lr=1e-5, weight_decay=0.05)

    def loss(self, tokens: Sequence[Tensor]) -> Tensor:
        """-log sigmoid((s+ - s-) / temperature), the mean over the batch (QuRe eq. 2)."""
        reference, positive, negative = tokens
        query = self.blip2.query(reference, self.texts)
        gallery = self.blip2.gallery(torch.cat([positive, negative]))  # [2 B, L, D]
        better, worse = (paired_relevance(query, images, "max") for images in gallery.chunk(2))
        return softplus((worse - better) / self.blip2.temperature).mean()

    def step(self, tokens: Tokens, seed: int) -> tuple[float, float]:
        """Take one step; its loss and its seconds."""
        torch.manual_seed(seed)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.loss(tokens())
        loss.backward()
        self.optimizer.step()
        return loss.item(), time.perf_counter() - start

    def gradients(self) -> dict[str, Tensor]:
        """Those of the last step, by parameter."""
        return {name: p.grad for name, p in self.trained.items() if p.grad is not None}


def main(side: str, folder: Path, name: str, batch: int, steps: int, seed: int) -> None:
    """Build, say so, wait, and print what was measured as a line of JSON."""
    blip2 = Blip2.random(ARCHITECTURES[name], torch.Generator().manual_seed(seed))
    print("built", flush=True)
    if not sys.stdin.readline():
        return  # whoever was to say so is gone
    files = draw_images(folder / "images", batch, blip2.preprocessing.size, seed)
    cache = FeatureCache.open(folder / "cache", blip2, DTYPE)
    cpu = torch.device("cpu")
    cache.fill(files, batch=batch, device=cpu, workers=1)
    stepper = Stepper(blip2, [TEXTS[number % len(TEXTS)] for number in range(batch)])
    tokens = cached(cache, batch)
    # Filling has warmed the image encoder up, and this warms up the rest, alike on both sides.
    stepper.step(tokens, seed)
    if side == "theirs":
        tokens = encoded(blip2, files, batch)
    seconds = []
    for number in range(steps):
        loss, elapsed = stepper.step(tokens, seed + 1 + number)
        seconds.append(elapsed)
        if number == 0:
            found = {"loss": torch.tensor(loss), **stepper.gradients()}
            difference = compare(side, found, folder / "theirs.safetensors")
    peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    result: dict[str, object] = {"seconds": seconds, "peak_mb": peak_mb}
    if side == "ours":
        result |= {
            "equal": difference <= RELATIVE_TOLERANCE,
            "gradient_difference": difference,
        }
    print(json.dumps(result), flush=True)


def compare(side: str, found: dict[str, Tensor], file: Path) -> float:
    """Theirs leaves loss and gradients in a file, ours holds its own against them."""
    if side == "theirs":
        save_file(found, file)
        return 0.0
    return largest_difference(found, load_file(file))


def draw_images(folder: Path, batch: int, size: int, seed: int) -> dict[str, Path]:
    """Write an image of noise for each role; files by image id, a role's one after the other.

    The batch's triplets show the same three: a step takes as long, and the cache is filled sooner.
    """
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    files = {}
    for role in ROLES:
        file = folder / f"{role}.png"
        noise = rng.integers(0, 256, (size, size, 3), dtype=np.uint8)
        if not file.exists():
            Image.fromarray(noise).save(file)
        files.update((f"{role}-{number}", file) for number in range(batch))
    return files


def cached(cache: FeatureCache, batch: int) -> Tokens:
    """Tokens read from the cache."""
    return lambda: [cache.tokens([f"{role}-{number}" for number in range(batch)]) for role in ROLES]


def encoded(blip2: Blip2, files: dict[str, Path], batch: int) -> Tokens:
    """Tokens that the image encoder computes, rounded as the cache rounds them."""
    pixels = torch.stack([blip2.preprocessing(Image.open(file)) for file in files.values()])
    return lambda: [blip2.image_tokens(images).to(DTYPE) for images in pixels.split(batch)]


def largest_difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference of two tensors of a name, as a share of the largest number there."""
    if ours.keys() != theirs.keys():
        return float("inf")
    return max(
        ((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max().clamp_min(1e-12)).item()
        for name in theirs
    )


if __name__ == "__main__":
    side, folder, name, *numbers = sys.argv[1:]
    main(side, Path(folder), name, *map(int, numbers))
