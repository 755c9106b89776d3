"""Both sides of `train-step`: builds a BLIP-2 with random weights once, forks, and takes steps."""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.overrides import TorchFunctionMode

from hsfiq.model.encoders.blip2_weights import ARCHITECTURES, Architecture
from hsfiq.model.encoders.lavis import Blip2
from hsfiq.model.image_tokens import FeatureCache
from hsfiq.model.scorer.scorer import paired_relevance

SIDES = ("theirs", "ours")
"""In running order: theirs fills the cache and writes gradients to compare with."""
ROLES = ("reference", "positive", "negative")
TEXTS = ("is darker and has longer sleeves", "is red with a logo and no collar")
DTYPE = torch.float16
RELATIVE_TOLERANCE = 1e-3
"""Of the gradients' difference to their length. When the cache is
filled, an image is in another batch, so kernels and then fp16 tokens may round differently."""
WEIGHT = 0.02
"""Standard deviation of the random weights: BERT's."""
DRAWING = {
    *(Tensor.normal_, Tensor.uniform_, Tensor.erfinv_, nn.init.normal_),
    *(nn.init.uniform_, nn.init.trunc_normal_, nn.init.kaiming_uniform_),
}
"""The functions that initialise weights."""

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
        query = self.blip2.compose(reference, self.texts)
        gallery = self.blip2.gallery(torch.cat([positive, negative]))  # [2 B, L, D]
        better, worse = (paired_relevance(query, images, "max") for images in gallery.chunk(2))
        return softplus((worse - better) / self.blip2.temperature).mean()

    def step(self, tokens: Tokens, seed: int) -> tuple[float, float]:
        """Take one step; its loss and its seconds."""
        torch.manual_seed(seed)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.loss(tokens())
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item(), time.perf_counter() - start

    def gradients(self) -> dict[str, Tensor]:
        """Those of the last step, by parameter."""
        return {name: p.grad for name, p in self.trained.items() if p.grad is not None}


class SkipInitialisation(TorchFunctionMode):
    """Skips weight initialisation, which takes most of the building time."""

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function; for an initialisation return its tensor unchanged."""
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def random_blip2(architecture: Architecture, seed: int) -> Blip2:
    """Build the model; all weights but the norms' have one distribution, and biases are zero."""
    generator = torch.Generator().manual_seed(seed)
    with SkipInitialisation():
        blip2 = Blip2.random(architecture, generator)
    bound = WEIGHT * 3**0.5
    for name, weight in blip2.named_parameters():
        if name.endswith("bias"):
            weight.data.zero_()
        elif weight.dim() > 1:
            weight.data.uniform_(-bound, bound, generator=generator)
    return blip2


@dataclass(frozen=True)
class Case:
    """The inputs of both sides."""

    folder: Path
    blip2: Blip2
    cache: FeatureCache
    batch: int
    seed: int


def main(folder: Path, name: str, batch: int, seed: int, theirs: int, ours: int) -> None:
    """Build, fork each side in turn, and print what they measured as a line of JSON.

    Args:
        folder: for images, cache and results.
        name: of the architecture.
        batch: triplets per step.
        seed: of all random numbers.
        theirs: timed steps with the image encoder.
        ours: timed steps with the cache.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a fork does not inherit threads
    blip2 = random_blip2(ARCHITECTURES[name], seed)
    cache = FeatureCache.open(folder / "cache", blip2, DTYPE)
    case = Case(folder, blip2, cache, batch, seed)
    for side, steps in zip(SIDES, (theirs, ours), strict=True):
        fork(measure, case, side, steps, threads)
    results = {side: json.loads(result_of(folder, side).read_bytes()) for side in SIDES}
    print(json.dumps(results), flush=True)


def fork(function: Callable[..., None], *arguments: object) -> None:
    """Call the function in a forked process.

    Raises:
        SystemExit: it failed, and printed why.
    """
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def measure(case: Case, side: str, steps: int, threads: int) -> None:
    """Warm up, take the steps, and write the measurements to a file."""
    torch.set_num_threads(threads)
    files = draw_images(
        case.folder / "images", case.batch, case.blip2.preprocessing.size, case.seed
    )
    case.cache.fill(files, batch=case.batch, device=torch.device("cpu"), workers=1)
    stepper = Stepper(case.blip2, [TEXTS[number % len(TEXTS)] for number in range(case.batch)])
    tokens = cached(case.cache, case.batch)
    # Filling warmed up the image encoder; this warms up the rest, on both sides.
    stepper.step(tokens, case.seed)
    if side == "theirs":
        tokens = encoded(case.blip2, files, case.batch)
    result: dict[str, object] = {}
    seconds = []
    for number in range(steps):
        loss, elapsed = stepper.step(tokens, case.seed + 1 + number)
        seconds.append(elapsed)
        if number == 0:
            result |= compare(side, loss, stepper.gradients(), case.folder / "theirs.safetensors")
    peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    result |= {"seconds": seconds, "peak_mb": peak_mb}
    result_of(case.folder, side).write_text(json.dumps(result))


def result_of(folder: Path, side: str) -> Path:
    """The file of a side's measurements."""
    return folder / f"{side}.json"


def compare(side: str, loss: float, gradients: dict[str, Tensor], file: Path) -> dict[str, object]:
    """Theirs writes loss and gradients to a file, ours compares its own with them."""
    losses = {"loss": torch.tensor(loss)}
    if side == "theirs":
        save_file({**losses, **gradients}, file)
        return {}
    theirs = load_file(file)
    loss_difference = relative_difference(losses, {"loss": theirs.pop("loss")})
    gradient_difference = relative_difference(gradients, theirs)
    return {
        "equal": max(loss_difference, gradient_difference) <= RELATIVE_TOLERANCE,
        "gradient_difference": gradient_difference,
    }


def draw_images(folder: Path, batch: int, size: int, seed: int) -> dict[str, Path]:
    """Write an image of noise for each role; return files by image id, grouped by role.

    All triplets share the three images: steps take equally long, and filling the cache is faster.
    """
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    files: dict[str, Path] = {}
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
    return lambda: [blip2.image_tokens(images).to(DTYPE) for images in torch.split(pixels, batch)]


def relative_difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The length of the difference of all tensors taken together, as a share of theirs.

    Not of each tensor by itself: the gradient of a key's bias is zero except for rounding.
    """
    if ours.keys() != theirs.keys():
        return float("inf")
    squared = sum((ours[name] - theirs[name]).double().square().sum() for name in theirs)
    return float((squared / sum(value.double().square().sum() for value in theirs.values())) ** 0.5)


if __name__ == "__main__":
    folder, name, *numbers = sys.argv[1:]
    main(Path(folder), name, *map(int, numbers))
