"""An image-text model trained further as a scorer, by the same loop as BLIP-2.

The image's encoder is frozen and its vectors are cached, so an image's vector stays what it was.
Trained are the text's encoder and a residual of the composition, as CLIP4CIR's two stages train
them (Baldrati et al., CVPR 2022): a query is

    image + text + residual([image; text])

of unit vectors, normalised. The residual is 0 at first: training starts from the zero-shot sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.libraries import load_towers
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.model.encoders.dual.vectors import VectorEncoder

TEMPERATURE = 0.07
"""At the start; it is trained, as in BLIP-2."""


class TrainedDual(VectorEncoder):
    """The encoders `hf` and `openclip`; `protocol.Encoder` describes the methods."""

    def __init__(self, library: str, towers: Towers, generator: torch.Generator) -> None:
        super().__init__(library, towers)
        width = towers.width()
        self.temperature = nn.Parameter(torch.tensor(TEMPERATURE))
        train_text_alone(towers)
        hidden, out = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)
        self.residual = nn.Sequential(hidden, nn.GELU(), out)
        for parameter in self.residual.parameters():
            nn.init.zeros_(parameter)
        nn.init.normal_(hidden.weight, std=(2 * width) ** -0.5, generator=generator)

    def train(self, mode: bool = True) -> TrainedDual:
        """Switch the residual's mode; the towers never use dropout."""
        super().train(mode)
        self.towers.eval()
        return self

    def compose(self, tokens: Tensor, texts: Sequence[str]) -> Tensor:
        image = self.gallery(tokens)[:, 0]  # [B, D]
        words = self.text_vectors(texts)  # [B, D]
        residual = self.residual(torch.cat([image, words], dim=1)).float()  # [B, D]
        return F.normalize(image + words + residual, dim=1)


def load(library: str, folder: Path | None, generator: torch.Generator) -> TrainedDual:
    """Load the model in a folder; the generator draws the residual's weights."""
    return TrainedDual(library, load_towers(library, require_folder(folder, library)), generator)


def require_folder(folder: Path | None, encoder: str) -> Path:
    if folder is None:
        raise UnreadableInput(
            f"encoder={encoder}", "needs the folder of its model", "name it with --weights"
        )
    return folder


def train_text_alone(towers: Towers) -> None:
    """Freeze what image vectors depend on, and what texts' vectors do not.

    A model may share weights between images and texts: they are frozen, because the vectors of
    images are cached.
    """
    towers.requires_grad_(requires_grad=True)
    with torch.enable_grad():
        text = parameters_behind(towers.text_vectors(["a"]), towers)
        image = parameters_behind(towers.image_vectors(towers.blank()), towers)
    for name, parameter in towers.named_parameters():
        parameter.requires_grad = name in text - image


def parameters_behind(vectors: Tensor, module: nn.Module) -> set[str]:
    """The names of the parameters that vectors were computed from."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(vectors.sum(), parameters, allow_unused=True)
    return {name for name, each in zip(names, gradients, strict=True) if each is not None}
