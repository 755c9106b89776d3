"""Image and text encoders behind one protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders import blip2, tiny, weights
from hsfiq.model.encoders.hf import encoder as blip2_hf
from hsfiq.model.encoders.protocol import Encoder


def build(
    name: str, *, size: int, pad_ratio: float, folder: Path | None, generator: torch.Generator
) -> Encoder:
    """Make an encoder as it is before training.

    Args:
        name: `tiny`, or one of BLIP-2's.
        size: of its images, in pixels.
        pad_ratio: of the preprocessing.
        folder: of BLIP-2's published files; the usual one if None.
        generator: draws the weights of `tiny`.

    Raises:
        UnreadableInput: no encoder has the name or takes images of the size, or its files are
            missing or broken.
        HsfiqError: the package that it needs is not installed.
    """
    if name == tiny.NAME:
        encoder: Encoder = tiny.Tiny(generator)
    elif name == blip2_hf.NAME:
        encoder = blip2_hf.load(folder)
    else:
        encoder = blip2.load(name, folder or weights.default_folder())
    if size != encoder.preprocessing.size:
        right = encoder.preprocessing.size
        raise UnreadableInput(
            f"size={size}", f"encoder {name} takes images of {right} pixels", f"set size={right}"
        )
    encoder.preprocessing = replace(encoder.preprocessing, pad_ratio=pad_ratio)
    return encoder
