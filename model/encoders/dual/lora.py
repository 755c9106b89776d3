"""An image-text model of transformers whose image encoder is tuned, too, by LoRA.

Low-rank adapters of the image encoder's attention (Hu et al., arXiv 2106.09685) are trained beside
what `trained` trains. So an image's vector changes with every step: the tokens are the prepared
pixels, which the feature cache keeps, and the image encoder runs wherever they are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.dual.libraries import load_towers
from hsfiq.model.encoders.dual.towers import Towers
from hsfiq.model.encoders.dual.trained import TrainedDual, require_folder

NAME: Final = "hf-lora"
RANK, ALPHA = 8, 16
TARGETS = r".*vision_model.*\.(q_proj|v_proj|qkv)"
"""The layers with adapters: as in the paper, of queries and values; BLIP has one layer for all."""


class LoraDual(TrainedDual):
    """The encoder `hf-lora`; `protocol.Encoder` describes the methods."""

    def __init__(self, towers: Towers, generator: torch.Generator) -> None:
        super().__init__(NAME, towers, generator)
        self._size = towers.preprocessing.size
        self.tokens_shape = (3, self._size**2)
        add_adapters(towers, generator)

    def frozen_id(self) -> str:
        """Of the weights that the adapters belong to, and of pixels as tokens."""
        return sha256(f"{self.towers.sha256} pixels".encode()).hexdigest()

    def image_modules(self) -> Sequence[nn.Module]:
        return ()  # the image encoder is used by every step

    def image_tokens(self, pixels: Tensor) -> Tensor:
        return pixels.flatten(2)  # [B, 3, size * size]

    def gallery(self, tokens: Tensor) -> Tensor:
        pixels = tokens.float().view(-1, 3, self._size, self._size)  # [B, 3, size, size]
        return F.normalize(self.towers.image_vectors(pixels), dim=1).unsqueeze(1)  # [B, 1, D]


def load(folder: Path | None, generator: torch.Generator) -> LoraDual:
    """Load the model in a folder; the generator draws what is trained from nothing."""
    return LoraDual(load_towers("hf", require_folder(folder, NAME)), generator)


def add_adapters(towers: Towers, generator: torch.Generator) -> None:
    """Add adapters, which change nothing yet; the parameters trained before stay trained."""
    try:
        from peft import LoraConfig, inject_adapter_in_model  # noqa: PLC0415 (an extra)
    except ImportError:
        where = f"encoder={NAME}"
        raise UnreadableInput(where, "needs peft", "pip install 'hsfiq[lora]'") from None
    trained = {name for name, each in towers.named_parameters() if each.requires_grad}
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS)
    try:
        inject_adapter_in_model(config, towers)
    except ValueError as error:
        what = f"has no attention that LoRA knows ({towers.folder})"
        raise UnreadableInput(f"encoder={NAME}", what, "take CLIP, SigLIP or BLIP") from error
    for name, parameter in towers.named_parameters():
        parameter.requires_grad = name in trained or ".lora_" in name
        if ".lora_A." in name:  # as peft draws it, but from the recipe's seed
            nn.init.kaiming_uniform_(parameter, a=math.sqrt(5), generator=generator)
