"""An image-text model as a retriever without training.

An image has one token, its vector. A query is the sum of the reference's and the text's vectors,
each of length 1 (Baldrati et al., CVPR 2022 call it the sum baseline), or one of the two alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.libraries import load_towers
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.text import decode

Parts = Literal["sum", "text", "image"]
"""What a query is made of."""


class DualEncoder(nn.Module):
    """A `Retriever`; `hsfiq.model.encoders.protocol` describes the methods."""

    def __init__(self, library: str, towers: Towers, parts: Parts) -> None:
        super().__init__()
        self.name = f"{library}:{towers.folder.name}" + ("" if parts == "sum" else f"@{parts}")
        self.parts = parts
        self.towers = towers
        self.preprocessing = towers.preprocessing
        self.tokens_shape = (1, towers.width())

    def frozen_id(self) -> str:
        return self.towers.sha256

    def image_modules(self) -> Sequence[nn.Module]:
        return self.towers.image_modules()

    @torch.no_grad()
    def image_tokens(self, pixels: Tensor) -> Tensor:
        return self.towers.image_vectors(pixels).unsqueeze(1)  # [B, 1, D]

    def clean_text(self, text: str) -> str:
        return decode(text)

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = F.normalize(tokens[:, 0].float(), dim=1)  # [B, D]
        if self.parts == "image":
            return image
        words = F.normalize(self.towers.text_vectors(texts), dim=1)  # [B, D]
        return words if self.parts == "text" else F.normalize(image + words, dim=1)

    def gallery(self, tokens: Tensor) -> Tensor:
        return F.normalize(tokens.float(), dim=2)  # [B, 1, D]


def load(library: str, argument: str) -> DualEncoder:
    """The model in a folder, `DIR`, or with a query of one part, `DIR@text` or `DIR@image`.

    Nothing is downloaded. UnreadableInput if the folder holds no such model.
    """
    name, _, wanted = argument.partition("@")
    parts: dict[str, Parts] = {each: each for each in get_args(Parts)}
    if (wanted or "sum") not in parts:
        raise UnreadableInput(
            f"{library}:{argument}", f"a query of {wanted!r}", f"write one of {', '.join(parts)}"
        )
    towers = load_towers(library, Path(name).expanduser())
    return DualEncoder(library, towers.eval(), parts[wanted or "sum"])
