"""Reading the files that the authors of the retrieval systems published.

Each is a pickle of a dictionary in which the weights stand under one key. A pickle can hold code;
here it is read with `weights_only`, which refuses it, and only tensors are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import DAMAGES

KEYS = (
    *("CLIP", "BLIPTextEncoder", "Combiner"),
    *("BLIP_Retrieval", "Blip2QformerCirAlignPrompt", "model"),
)
"""Where the weights stand: the name of the class that wrote them, or `model`."""

QURE = "Blip2QuRe"
"""The class whose state QuRe's `model.pth` is, without a key."""

Dataset = Literal["fashioniq", "cirr"]


@dataclass(frozen=True, slots=True)
class Known:
    """A published file that is recognised by its SHA-1."""

    name: str
    dataset: Dataset | None


# From the README of github.com/Cuberick-Orion/Bi-Blip4CIR at 1aa6909. No other system's authors
# publish hashes.
KNOWN = {
    "5f1d8cdfae91e22a35e98a4bbb4c43be7bd0ac50": Known("BLIP's model_base.pth", None),
    "80f0db536f588253fca416af83cb50fab709edda": Known(
        "Bi-BLIP4CIR's tuned_blip_best.pt", "fashioniq"
    ),
    "4a1ba45bf52033c245c420b30873f68bc8e60732": Known("Bi-BLIP4CIR's combiner.pt", "fashioniq"),
    "67dca8a1905802cfd4cd02f640abb0579f1f88fd": Known("Bi-BLIP4CIR's tuned_blip_mean.pt", "cirr"),
    "327703361117400de83936674d5c3032af37bd7a": Known("Bi-BLIP4CIR's combiner_mean.pt", "cirr"),
}


@dataclass(frozen=True, slots=True)
class PublishedFile:
    path: Path
    key: str
    """One of `KEYS`, or `QURE`."""
    tensors: dict[str, Tensor]
    """By the names of the code that wrote them, without the prefix `module.`."""
    sha1: str

    @property
    def known(self) -> Known | None:
        return KNOWN.get(self.sha1)

    @property
    def description(self) -> str:
        return self.known.name if self.known else f"unknown file, SHA-1 {self.sha1}"


def read_published(path: Path) -> PublishedFile:
    """Read a file of any known layout; UnreadableInput for others, and for a damaged file."""
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except DAMAGES as error:
        raise UnreadableInput(
            str(path),
            f"is damaged, or holds more than tensors and numbers ({type(error).__name__})",
            "download it again; a file with other Python objects could run code, and is not read",
        ) from error
    names = list(content) if isinstance(content, dict) else []
    if {"query_tokens", "temp"} <= set(names):
        content, names = {QURE: content}, [QURE]
    key = next((key for key in (*KEYS, QURE) if key in names), None)
    if key is None:
        has = f"has the keys {', '.join(map(str, names[:5]))}" if names else "is no dictionary"
        raise UnreadableInput(str(path), f"{has}; a known file has one of {', '.join(KEYS)}")
    weights = content[key]
    if not isinstance(weights, dict):
        raise UnreadableInput(str(path), f"holds no weights under {key!r}")
    tensors = {
        str(name).removeprefix("module."): value
        for name, value in weights.items()
        if isinstance(value, Tensor)
    }
    with path.open("rb") as file:
        sha1 = file_digest(file, "sha1").hexdigest()
    return PublishedFile(path, key, tensors, sha1)
