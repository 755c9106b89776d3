"""An image-text model as a retriever without training.

An image has one token, its vector. A query is the sum of the reference's and the text's vectors,
each of length 1 (Baldrati et al., CVPR 2022 call it the sum baseline), or one of the two alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.libraries import load_towers
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.model.encoders.dual.vectors import VectorEncoder

Parts = Literal["sum", "text", "image"]
"""What a query is made of."""


class DualEncoder(VectorEncoder):
    """A `Retriever`; `hsfiq.model.encoders.protocol` describes the methods."""

    def __init__(self, library: str, towers: Towers, parts: Parts) -> None:
        suffix = "" if parts == "sum" else f"@{parts}"
        super().__init__(f"{library}:{towers.folder.name}{suffix}", towers)
        self.parts = parts

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = F.normalize(tokens[:, 0].float(), dim=1)  # [B, D]
        if self.parts == "image":
            return image
        words = self.text_vectors(texts)  # [B, D]
        return words if self.parts == "text" else F.normalize(image + words, dim=1)


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
