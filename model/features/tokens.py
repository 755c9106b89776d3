"""The sources of an image's tokens: the cache, the encoder each time, or the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.features.images import open_image


class TokenSource(Protocol):
    """Gives images' tokens: a filled `FeatureCache`, or a class below."""

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        """Images' tokens [B, P, W] without gradients; UnreadableInput if an image has none."""
        ...


class MoreTokens:
    """A source's tokens, and those of further images, which are held in memory."""

    def __init__(self, source: TokenSource, more: Mapping[str, Tensor]) -> None:
        """`more` are the tokens [P, W] of images that the source does not have, on the CPU."""
        self._source = source
        self._more = more

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        rows = [
            self._more[image_id] if image_id in self._more else self._source.tokens([image_id])[0]
            for image_id in image_ids
        ]
        return torch.stack(rows)  # [B, P, W]


class EncodedTokens:
    """Tokens computed from the image files at every call: the slow reference for the cache.

    Encoders may round differently in batches of other sizes, so the two agree to the bit if the
    batches do, or if the encoder's results do not depend on them.
    """

    def __init__(
        self,
        encoder: FrozenEncoder,
        images: Mapping[str, Path],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Encode these files, by image id, with an encoder on `device`; round tokens to `dtype`."""
        self._encoder = encoder
        self._images = images
        self._dtype = dtype
        self._device = device

    def tokens(self, image_ids: Sequence[str]) -> Tensor:
        """Open, preprocess and encode: [B, P, W] in `dtype`, on `device`."""
        distinct = list(dict.fromkeys(image_ids))  # a batch names many images several times
        with ThreadPoolExecutor(thread_name_prefix="decode") as decoders:
            prepared = dict(zip(distinct, decoders.map(self._pixels, distinct), strict=True))
        pixels = torch.stack([prepared[image_id] for image_id in image_ids])  # [B, 3, size, size]
        with torch.no_grad():
            return self._encoder.image_tokens(pixels.to(self._device)).to(self._dtype)

    def _pixels(self, image_id: str) -> Tensor:
        path = self._images.get(image_id)
        if path is None:
            raise UnreadableInput(f"image {image_id}", "has no tokens", "is its file there?")
        with open_image(path) as image:
            return self._encoder.preprocessing(image)  # [3, size, size]
