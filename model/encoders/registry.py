"""The encoders by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders import tiny
from hsfiq.model.encoders.blip2_weights import default_folder
from hsfiq.model.encoders.dual import lora
from hsfiq.model.encoders.dual import trained as dual
from hsfiq.model.encoders.dual.libraries import LIBRARIES
from hsfiq.model.encoders.hf import encoder as hf
from hsfiq.model.encoders.lavis import encoder as lavis
from hsfiq.model.encoders.preprocessing import Preprocessing
from hsfiq.model.encoders.protocol import Encoder


def build_encoder(
    name: str, *, size: int, pad_ratio: float, folder: Path | None, generator: torch.Generator
) -> Encoder:
    """Make an encoder as it is before training.

    `folder` holds the published files (None: the usual ones of BLIP-2); the generator draws weights
    that are trained from nothing. `hf`, `hf-lora` and `openclip` have their model's own
    preprocessing, without `pad_ratio`. UnreadableInput for images of another size, and missing or
    broken files.
    """
    if name == tiny.NAME:
        encoder: Encoder = tiny.Tiny(generator)
    elif name == hf.NAME:
        encoder = hf.load(folder)
    elif name == lora.NAME:
        encoder = lora.load(folder, generator)
    elif name in LIBRARIES:
        encoder = dual.load(name, folder, generator)
    else:
        encoder = lavis.load(name, folder or default_folder())
    right = encoder.preprocessing.size
    if size != right:
        raise UnreadableInput(
            f"size={size}", f"encoder {name} takes images of {right} pixels", f"set size={right}"
        )
    if type(encoder.preprocessing) is Preprocessing:  # not the one of a library
        encoder.preprocessing = replace(encoder.preprocessing, pad_ratio=pad_ratio)
    return encoder
