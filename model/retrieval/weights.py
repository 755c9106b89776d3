"""The files that the authors of the retrieval systems published: reading and renaming them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 -- the usual name

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import DAMAGES

# Comparing the tensors of a published file with those of a model, name by name.

REMEDY = "use the file of this model and version of its code"


def matched(
    published: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    published_name: Callable[[str], str],
    file: Path,
    unused: tuple[str, ...] = (),
) -> dict[str, Tensor]:
    """The published tensors under our names: exactly those of `wanted`, whose shapes count.

    `published_name` gives the name in the file for one of ours. Names in the file that begin with
    one of `unused` are left out. UnreadableInput, with the names as they are in the file, if a
    tensor is missing, unknown, of another shape or holds a value that is not finite.
    """
    names = {published_name(name): name for name in wanted}
    missing = [name for name in names if name not in published]
    unknown = [name for name in published if name not in names and not name.startswith(unused)]
    if missing:
        has = f" and has {first_one(unknown)}" if unknown else ""
        raise UnreadableInput(str(file), f"lacks {first_one(missing)}{has}", REMEDY)
    if unknown:
        raise UnreadableInput(str(file), f"has the unknown {first_one(unknown)}", REMEDY)
    for name, ours in names.items():
        require_like(published[name], wanted[ours], name, file)
    return {ours: published[name] for name, ours in names.items()}


def require_like(tensor: Tensor, wanted: Tensor, name: str, file: Path) -> None:
    if tensor.shape != wanted.shape:
        shapes = f"{list(tensor.shape)}, not {list(wanted.shape)}"
        raise UnreadableInput(str(file), f"{name} has the shape {shapes}", REMEDY)
    if not tensor.isfinite().all():
        raise UnreadableInput(
            str(file), f"{name} has values that are not finite", "download it again"
        )


def first_one(names: list[str]) -> str:
    more = f" ({len(names) - 1} more)" if len(names) > 1 else ""
    return f"{names[0]}{more}"


# The tensors of BLIP by the names of its code, as those of hsfiq.model.retrieval.blip.
#
# The table is that of transformers' script convert_blip_original_pytorch_to_hf.py; the text encoder
# has the same names in both.

POSITIONS = "visual_encoder.pos_embed"

CROSS_ATTENTION = ".crossattention."

UNUSED_OF_BLIP = (
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


def name_in_blip(name: str) -> str:
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
    positions = [tensor for name, tensor in wanted.items() if name_in_blip(name) == POSITIONS]
    if positions and POSITIONS in tensors:
        tensors[POSITIONS] = resized_positions(tensors[POSITIONS], positions[0].shape[1], file)
    return matched(tensors, wanted, name_in_blip, file, (*UNUSED_OF_BLIP, *unused))


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


# The tensors of CLIP by OpenAI's names, as those of hsfiq.model.retrieval.clip.

PROJECTION, OUR_PROJECTION = "text_projection", "text.proj.weight"
"""The same matrix, transposed."""

UNUSED_OF_CLIP = ("logit_scale", "input_resolution", "context_length", "vocab_size")
"""CLIP's own temperature (CLIP4CIR's is fixed at 100), and three numbers of OpenAI's archives."""


def name_in_clip(name: str) -> str:
    """OpenAI's name of one of our tensors."""
    if name == OUR_PROJECTION:
        return PROJECTION
    side, _, rest = name.partition(".")
    return f"visual.{rest}" if side == "image" else rest


def clip_tensors(
    published: Mapping[str, Tensor], wanted: Mapping[str, Tensor], file: Path
) -> dict[str, Tensor]:
    """Check and rename a complete CLIP; raises as `matched`."""
    projection = wanted[OUR_PROJECTION].T
    tensors = matched(
        published, {**wanted, OUR_PROJECTION: projection}, name_in_clip, file, UNUSED_OF_CLIP
    )
    return {**tensors, OUR_PROJECTION: tensors[OUR_PROJECTION].T}


# Reading the files that the authors of the retrieval systems published.
#
# Each is a pickle of a dictionary in which the weights stand under one key. A pickle can hold code;
# here it is read with `weights_only`, which refuses it, and only tensors are kept.

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
    """A published file that is recognized by its SHA-1."""

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
        has = f"has the keys {', '.join(map(str, names[:5]))}" if names else "is not a dictionary"
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
