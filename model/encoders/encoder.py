"""The protocols of encoders and their shared parts: texts, pixels and vectors of queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.text import decode

# Turning an image into pixels: pad, resize, crop, normalise.
#
# Padding is CLIP4Cir's TargetPad, as in both papers' code: an image whose sides have a ratio of
# `pad_ratio` or more gets bars of zeros on its short side until the ratio is about that. As there,
# images are converted to RGB last: bars are black, except a palette's first colour (mode P) and
# white in mode CMYK, where zero means no ink; and Pillow resizes modes P and 1 to the nearest
# pixel. CoVR-BLIP squeezes images to a square instead.

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """The settings of the preprocessing; call it with an image. ValueError for values below 1.

    `squeeze` resizes both sides to `size`, so that the whole image is seen and its aspect is lost;
    `pad_ratio` is then not used.
    """

    size: int = 224
    pad_ratio: float = 1.25
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    squeeze: bool = False

    def __post_init__(self) -> None:
        if self.size < 1 or not self.pad_ratio >= 1:
            raise ValueError(f"size and pad_ratio must be 1 or more: {self}")

    def __call__(self, image: Image.Image) -> Tensor:
        """Prepare one image: [3, size, size] float32, normalised."""
        square = self._square(image)
        # NumPy, because many threads prepare images at once and torch would start threads in each.
        channels = np.asarray(square).transpose(2, 0, 1)
        pixels = channels.astype(np.float32, order="C")  # [3, size, size]
        pixels /= np.float32(255)
        mean, std = (np.array(values, dtype=np.float32) for values in (self.mean, self.std))
        pixels -= mean[:, None, None]
        pixels /= std[:, None, None]
        return torch.from_numpy(pixels)

    def _square(self, image: Image.Image) -> Image.Image:
        if self.squeeze:
            return to_rgb(image).resize((self.size, self.size), Image.Resampling.BICUBIC)
        return to_rgb(crop_to_square(target_pad(image, self.pad_ratio), self.size))


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert as `convert("RGB")` does, without its warning for some palettes."""
    return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")


def target_pad(image: Image.Image, ratio: float) -> Image.Image:
    """Pad the short side with zeros if the sides' ratio is `ratio` or more (CLIP4Cir)."""
    width, height = image.size
    if max(width, height) / min(width, height) < ratio:
        return image
    wanted = max(width, height) / ratio
    across, down = (max(int((wanted - side) / 2), 0) for side in (width, height))
    return ImageOps.expand(image, border=(across, down, across, down), fill=0)


def crop_to_square(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side to `size`, bicubic, and crop the central square."""
    shorter = min(image.size)
    # The longer side is rounded down, as in torchvision's Resize(int).
    width, height = (size * side // shorter for side in image.size)
    resized = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return resized.crop((left, top, left + size, top + size))


# The protocols of retrievers and of the scorers' encoders.
#
# The image encoder is frozen and its tokens depend on the image alone, so they are computed once
# and kept (`hsfiq.model.image_tokens`). The part after it is trained: `compose` and `gallery` read
# tokens, never pixels.


class FrozenEncoder(Protocol):
    """The interface for the feature cache: the part of a model that is never trained.

    Letters in shapes: B batch, P image tokens, W their width, L vectors of an image in the gallery,
    D dimensions.
    """

    name: str
    preprocessing: Preprocessing
    tokens_shape: tuple[int, int]
    """(P, W)."""

    def frozen_id(self) -> str:
        """The sha256 of every weight and setting that `image_tokens` depends on."""
        ...

    def image_modules(self) -> Sequence[nn.Module]:
        """The modules with weights that `image_tokens` alone uses."""
        ...

    def image_tokens(self, pixels: Tensor) -> Tensor:
        """Encode images, without gradients: [B, 3, size, size] -> [B, P, W]."""
        ...


class Retriever(FrozenEncoder, Protocol):
    """Any model that ranks images for a query: a `torch.nn.Module` with these members."""

    training: bool

    def train(self, mode: bool = True) -> Any: ...

    def clean_text(self, text: str) -> str:
        """The text in the form that `compose` expects."""
        ...

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        """Compose references and clean texts: [B, P, W] and B texts -> [B, D], of length 1."""
        ...

    def gallery(self, tokens: Tensor) -> Tensor:
        """Project images to the vectors that queries are compared with: [B, P, W] -> [B, L, D]."""
        ...


class Encoder(Retriever, Protocol):
    """A scorer's encoder; only its trained parameters require gradients.

    `hsfiq.model.encoders.registry.build_encoder` takes its name.
    """

    temperature: nn.Parameter
    """Training divides scores by it (QuRe eq. 1): 0.07 at the start; learned in BLIP-2."""


# How every encoder makes one vector of a query's L vectors.


def pooled_query(vectors: Tensor) -> Tensor:
    """The mean of a query's vectors, scaled to length 1: [B, L, D] -> [B, D]."""
    return F.normalize(vectors.mean(dim=1), dim=-1)


# How a text is cleaned before a model's tokenizer reads it.

MAX_WORDS = 50

_SEPARATORS = re.compile(r'[.!"()*#:;~]')
_BLANKS = re.compile(r"\s{2,}")


def normalise(text: str, max_words: int = MAX_WORDS) -> str:
    """Clean a text as LAVIS' `blip_caption` processor does, after decoding CoSMo's escapes.

    Lower case, some punctuation replaced by blanks, single blanks, `max_words` words at most.
    """
    separated = _SEPARATORS.sub(" ", decode(text).lower())
    words = _BLANKS.sub(" ", separated).rstrip("\n").strip(" ").split(" ")
    return " ".join(words[:max_words])
