"""The tensors of BLIP by the names of its code, as those of hsfiq.model.retrieval.backbones.blip.

The table is that of transformers' script convert_blip_original_pytorch_to_hf.py; the text encoder
has the same names in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.retrieval.weights.checks import REMEDY, matched

POSITIONS = "visual_encoder.pos_embed"

CROSS_ATTENTION = ".crossattention."

UNUSED = (
    "text_encoder.embeddings.position_ids",  # 0, 1, 2, ...
    *("itm_head.", "temp", "text_decoder."),
    *("visual_encoder_m.", "vision_proj_m.", "text_encoder_m.", "text_proj_m."),
    *("image_queue", "text_queue", "queue_ptr", "ptr_queue", "idx_queue"),
)
"""What BLIP's files of pre-training and of retrieval hold besides: other tasks' heads, the
temperature, and the momentum encoders with their queues."""

_PARTS = (
    ("image.encoder.embeddings.class_embedding", "visual_encoder.cls_token"),
    ("image.encoder.embeddings.position_embedding", POSITIONS),
    ("image.encoder.embeddings.patch_embedding", "visual_encoder.patch_embed.proj"),
    ("image.encoder.encoder.layers", "visual_encoder.blocks"),
    ("image.encoder.post_layernorm", "visual_encoder.norm"),
    ("image.proj", "vision_proj"),
    ("text.encoder", "text_encoder"),
    ("text.proj", "text_proj"),
)
_INSIDE_BLOCKS = (
    ("self_attn.projection", "attn.proj"),
    ("self_attn", "attn"),
    ("layer_norm1", "norm1"),
    ("layer_norm2", "norm2"),
)


def published_name(name: str) -> str:
    """The name in BLIP's files of one of our tensors."""
    for ours, published in _PARTS:
        if name.startswith(ours):
            name = name.replace(ours, published, 1)
            break
    if name.startswith("visual_encoder.blocks."):
        for ours, published in _INSIDE_BLOCKS:
            name = name.replace(f".{ours}.", f".{published}.")
    return name


def blip_tensors(
    published: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    file: Path,
    unused: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """Check and rename a BLIP, or the half of it that `wanted` names; raises as `matched`.

    Position embeddings of another image size are interpolated. Cross-attention is left out where
    `wanted` has none. `unused` are prefixes of names to leave out, besides `UNUSED`.
    """
    tensors = {name.removeprefix("module."): tensor for name, tensor in published.items()}
    if not any(CROSS_ATTENTION in name for name in wanted):
        tensors = {name: tensors[name] for name in tensors if CROSS_ATTENTION not in name}
    positions = [tensor for name, tensor in wanted.items() if published_name(name) == POSITIONS]
    if positions and POSITIONS in tensors:
        tensors[POSITIONS] = resized_positions(tensors[POSITIONS], positions[0].shape[1], file)
    return matched(tensors, wanted, published_name, file, (*UNUSED, *unused))


def resized_positions(positions: Tensor, n_tokens: int, file: Path) -> Tensor:
    """Interpolate [1, 1 + m*m, W] to [1, 1 + n*n, W], as BLIP's code does; the first stays."""
    side = round((positions.shape[1] - 1) ** 0.5) if positions.dim() == 3 else 0
    if side == 0 or side**2 + 1 != positions.shape[1]:
        raise UnreadableInput(
            str(file), f"{POSITIONS} has the shape {list(positions.shape)}", REMEDY
        )
    if positions.shape[1] == n_tokens:
        return positions
    grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, side, side)  # [1, W, m, m]
    wanted = round((n_tokens - 1) ** 0.5)
    resized = F.interpolate(grid.float(), (wanted, wanted), mode="bicubic", align_corners=False)
    return torch.cat([positions[:, :1].float(), resized.flatten(2).transpose(1, 2)], dim=1)
