"""The encoders by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import torch

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders import dual, hf, lavis, tiny
from hsfiq.model.encoders.blip2_weights import default_folder
from hsfiq.model.encoders.dual import load_zero_shot
from hsfiq.model.encoders.encoder import Encoder, Preprocessing, Retriever
from hsfiq.model.encoders.towers import LIBRARIES
from hsfiq.text import first_few

# Retrievers by a specification `NAME:ARGUMENT`, ours and those of installed packages.
#
# A package adds one with an entry point of the group `hsfiq.encoders`, whose object takes the
# argument and returns a `hsfiq.model.encoders.encoder.Retriever`; docs/contributing/plugins.md has
# an example.

GROUP: Final = "hsfiq.encoders"
OURS: Final[dict[str, Callable[[str], Retriever]]] = {
    library: partial(load_zero_shot, library) for library in LIBRARIES
}

_SPECIFICATION = re.compile(r"(?P<name>[A-Za-z][\w-]+):(?P<argument>.*)", re.DOTALL)


def is_specification(path: Path) -> bool:
    """Whether this names a retriever, not a checkpoint's file or folder."""
    return not path.exists() and _SPECIFICATION.fullmatch(str(path)) is not None


def build_retriever(specification: str) -> Retriever:
    """The retriever; UnreadableInput if there is none of this name, and as its maker raises."""
    match = _SPECIFICATION.fullmatch(specification)
    if match is None:
        raise UnreadableInput(specification, "is not NAME:ARGUMENT")
    name, argument = match["name"], match["argument"]
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name in OURS:
        return OURS[name](argument)
    if name not in installed:
        known = first_few(sorted({*OURS, *installed}))
        what = f"no installed encoder is named {name}"
        raise UnreadableInput(specification, what, f"there are: {known}")
    retriever: Retriever = installed[name].load()(argument)
    return retriever


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
    elif name == dual.NAME:
        encoder = dual.load_lora(folder, generator)
    elif name in LIBRARIES:
        encoder = dual.load_trained(name, folder, generator)
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
