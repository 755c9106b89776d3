"""The BLIP-2 models that LAVIS publishes: their image encoders and the files they are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PATCH = 14
"""Pixels along a side of a patch, in both image encoders."""

EVA_MLP_RATIO = 4.3637
"""Width within EVA's MLPs to that without, as LAVIS' `create_eva_vit_g` has it."""


@dataclass(frozen=True, slots=True)
class Vit:
    """The settings of an image encoder, as LAVIS has them."""

    kind: Literal["clip", "eva"]
    size: int
    """Pixels along a side of the image."""
    width: int
    blocks: int
    heads: int

    @property
    def tokens_shape(self) -> tuple[int, int]:
        """(P, W): one token for each patch and one for the image, and their width."""
        return (self.size // PATCH) ** 2 + 1, self.width


@dataclass(frozen=True, slots=True)
class Architecture:
    """A published model: how it is built, and the names of its files."""

    name: str
    vit: Vit
    checkpoint: str
    """Holds the Q-Former and the projections; where `vit_file` is None, the image encoder too."""
    vit_file: str | None


# LAVIS asks its CLIP for 22 layers and leaves one out: the Q-Former reads the last but one.
CLIP_L = Vit("clip", size=224, width=1024, blocks=21, heads=16)
EVA_G = Vit("eva", size=224, width=1408, blocks=39, heads=16)
EVA_G_364 = Vit("eva", size=364, width=1408, blocks=39, heads=16)

ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("blip2-vitL", CLIP_L, "blip2_pretrained_vitL.pth", "clip_vit_L.pth"),
        Architecture("blip2-vitg", EVA_G, "blip2_pretrained.pth", "eva_vit_g.pth"),
        # Fine-tuned on COCO with its image encoder, which is in the checkpoint.
        Architecture("blip2-coco", EVA_G_364, "blip2_finetune_coco.pth", None),
    )
}
"""LAVIS' types `pretrain_vitL`, `pretrain` and `coco`, by our names."""
