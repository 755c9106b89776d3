"""The sizes of BLIP's published models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlipSizes:
    """The sizes of a model and the shape of its images.

    `size` and `patch` are sides in pixels; `positions` is the longest text that fits; `squeeze` is
    that of `Preprocessing`.
    """

    name: str
    size: int
    patch: int
    width: int
    blocks: int
    heads: int
    text_width: int = 768
    text_layers: int = 12
    text_heads: int = 12
    positions: int = 512
    dim: int = 256
    squeeze: bool = False

    @property
    def n_tokens(self) -> int:
        """Image tokens: one for the image and one for each patch."""
        return (self.size // self.patch) ** 2 + 1


# med_config.json of Bi-BLIP4CIR and CoVR gives the text encoder; transformers' default has 8 heads.
BASE = BlipSizes("blip-base", size=384, patch=16, width=768, blocks=12, heads=12)
# CoVR squeezes images; Bi-BLIP4CIR, and BLIP4CIR with cross-attention, pad them.
LARGE = BlipSizes("blip-large", size=384, patch=16, width=1024, blocks=24, heads=16, squeeze=True)

SIZES = {sizes.name: sizes for sizes in (BASE, LARGE)}
