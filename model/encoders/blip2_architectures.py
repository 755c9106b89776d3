"""The BLIP-2 models that LAVIS publishes: their image encoders and their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PATCH = 14
"""The side of a patch in pixels, in both image encoders."""

EVA_MLP_RATIO = 4.3637
"""The hidden width of EVA's MLPs over their input width, from LAVIS' `create_eva_vit_g`."""


@dataclass(frozen=True, slots=True)
class Vit:
    """The settings of an image encoder, as in LAVIS; `size` is the image's side in pixels."""

    kind: Literal["clip", "eva"]
    size: int
    width: int
    blocks: int
    heads: int

    @property
    def tokens_shape(self) -> tuple[int, int]:
        """(P, W): the number of tokens, one per patch and one for the image, and their width."""
        return (self.size // PATCH) ** 2 + 1, self.width


@dataclass(frozen=True, slots=True)
class Architecture:
    """A published model; without a `vit_file`, its checkpoint holds the image encoder too."""

    name: str
    vit: Vit
    checkpoint: str
    vit_file: str | None


# LAVIS drops the last of CLIP's 22 layers: the Q-Former reads the last but one.
CLIP_L = Vit("clip", size=224, width=1024, blocks=21, heads=16)
EVA_G = Vit("eva", size=224, width=1408, blocks=39, heads=16)
EVA_G_364 = Vit("eva", size=364, width=1408, blocks=39, heads=16)

ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("blip2-vitL", CLIP_L, "blip2_pretrained_vitL.pth", "clip_vit_L.pth"),
        Architecture("blip2-vitg", EVA_G, "blip2_pretrained.pth", "eva_vit_g.pth"),
        # Fine-tuned on COCO together with its image encoder, which is in the checkpoint.
        Architecture("blip2-coco", EVA_G_364, "blip2_finetune_coco.pth", None),
    )
}
"""LAVIS' types `pretrain_vitL`, `pretrain` and `coco`, by our names."""
