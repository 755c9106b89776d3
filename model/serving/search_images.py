"""Images that a search brings along: decoded, encoded, and forgotten with its answer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.live.protocol import RetrieverRefused, Search
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.protocol import FrozenEncoder
from hsfiq.model.features.cache import TOKENS_DTYPE

FORMATS = ("JPEG", "MPO", "PNG")
"""Pillow's names. MPO is a JPEG with a second picture, as some phones write; the first is used."""


def preprocessed(where: str, search: Search, preprocessing: Preprocessing) -> dict[str, Tensor]:
    """The images' pixels, each [3, size, size]; `RetrieverRefused` for a file that is no image.

    As for the corpus, an EXIF orientation is not applied.
    """
    return {
        image_id: pixels_of(f"{where}.images.{image_id}", content, preprocessing)
        for image_id, content in search.files().items()
    }


def pixels_of(where: str, content: bytes, preprocessing: Preprocessing) -> Tensor:
    remedy = "send a complete JPEG or PNG file"
    try:
        with decoded(content) as image:
            if image.format not in FORMATS:
                raise RetrieverRefused(where, f"is a {image.format} file", remedy)
            return preprocessing(image)
    except UndecodableImage as error:
        raise RetrieverRefused(where, error.fault.why, remedy) from error


def encoded(
    pixels: Mapping[str, Tensor], encoder: FrozenEncoder, device: torch.device
) -> dict[str, Tensor]:
    """The images' tokens, each [P, W], as the feature cache would hold them.

    The cache leaves the encoder on the CPU; it goes to the device and stays there.
    """
    for module in encoder.image_modules() if pixels else ():
        module.to(device)
    with torch.inference_mode():
        return {
            image_id: encoder.image_tokens(image.unsqueeze(0).to(device))[0].to(TOKENS_DTYPE).cpu()
            for image_id, image in pixels.items()
        }
