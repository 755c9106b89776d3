"""The tensors of CLIP by OpenAI's names, as those of hsfiq.model.retrieval.backbones.clip.model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from hsfiq.model.retrieval.weights.checks import matched

PROJECTION, OUR_PROJECTION = "text_projection", "text.proj.weight"
"""The same matrix, transposed."""

UNUSED = ("logit_scale", "input_resolution", "context_length", "vocab_size")
"""CLIP's own temperature (CLIP4CIR's is fixed at 100), and three numbers of OpenAI's archives."""


def published_name(name: str) -> str:
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
        published, {**wanted, OUR_PROJECTION: projection}, published_name, file, UNUSED
    )
    return {**tensors, OUR_PROJECTION: tensors[OUR_PROJECTION].T}
