"""How an image becomes pixels: pad, resize, crop, normalise.

Padding is CLIP4Cir's TargetPad, which both papers' code follows: an image whose sides differ by
more than `pad_ratio` gets black bars on its short side until the ratio is about that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """The settings, and with them the function: `preprocessing(image)`.

    Raises:
        ValueError: a size or ratio that no image can have.
    """

    size: int = 224
    pad_ratio: float = 1.25
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD

    def __post_init__(self) -> None:
        if self.size < 1 or self.pad_ratio < 1:
            raise ValueError(f"a size is 1 or more, a ratio of sides too: {self}")

    def __call__(self, image: Image.Image) -> Tensor:
        """Prepare one image.

        Returns:
            [3, size, size] float32, normalised.
        """
        padded = target_pad(image, self.pad_ratio).convert("RGB")
        square = crop_to_square(padded, self.size)
        pixels = torch.from_numpy(np.array(square, dtype=np.float32) / 255)  # [size, size, 3]
        normal = (pixels - torch.tensor(self.mean)) / torch.tensor(self.std)
        return normal.permute(2, 0, 1).contiguous()


def target_pad(image: Image.Image, ratio: float) -> Image.Image:
    """Pad the short side with black where the sides' ratio exceeds `ratio` (CLIP4Cir)."""
    width, height = image.size
    if max(width, height) / min(width, height) < ratio:
        return image
    wanted = max(width, height) / ratio
    across, down = (max(int((wanted - side) / 2), 0) for side in (width, height))
    return ImageOps.expand(image, border=(across, down, across, down), fill=0)


def crop_to_square(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side to `size`, bicubic, and cut the middle square out."""
    shorter = min(image.size)
    # The longer side is cut, not rounded: so torchvision's Resize(int) has it.
    wide, high = (size * side // shorter for side in image.size)
    resized = image.resize((wide, high), Image.Resampling.BICUBIC)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    return resized.crop((left, top, left + size, top + size))
