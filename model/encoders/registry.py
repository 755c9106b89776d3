"""The encoders by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders import tiny
from hsfiq.model.encoders.blip2_weights import default_folder
from hsfiq.model.encoders.hf import encoder as hf
from hsfiq.model.encoders.lavis import encoder as lavis
from hsfiq.model.encoders.protocol import Encoder


def build_encoder(
    name: str, *, size: int, pad_ratio: float, folder: Path | None, generator: torch.Generator
) -> Encoder:
    """Make an encoder as it is before training.

    `folder` holds BLIP-2's published files (None: the usual one); the generator draws the weights
    of `tiny`. UnreadableInput for images of another size, and missing or broken files.
    """
    if name == tiny.NAME:
        encoder: Encoder = tiny.Tiny(generator)
    elif name == hf.NAME:
        encoder = hf.load(folder)
    else:
        encoder = lavis.load(name, folder or default_folder())
    right = encoder.preprocessing.size
    if size != right:
        raise UnreadableInput(
            f"size={size}", f"encoder {name} takes images of {right} pixels", f"set size={right}"
        )
    encoder.preprocessing = replace(encoder.preprocessing, pad_ratio=pad_ratio)
    return encoder
