"""Stored outputs of a small CLIP in open_clip; `make_clip_reference.py` makes the files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from hsfiq.model.retrieval.clip import (
    Clip,
    ResNetSizes,
    TextSizes,
    read_merges,
    sized,
    tokenizer_of,
)
from hsfiq.model.retrieval.weights import clip_tensors

FIXTURES = Path(__file__).parents[1] / "fixtures"
MERGES = FIXTURES / "clip_small_merges.txt.gz"


@dataclass(frozen=True)
class ClipReference:
    """Inputs and outputs of open_clip's model.

    Attributes:
        weights: its whole state, by OpenAI's names.
        pixels: [N, 3, size, size] float32.
        image: [N, D], of the pixels.
        text: [B, D], of `about["texts"]`.
        about: `sizes` (as open_clip takes them), `texts` (B), `tokenized` (texts with their ids),
            `words` (how many), `versions`.
    """

    weights: dict[str, Tensor]
    pixels: Tensor
    image: Tensor
    text: Tensor
    about: dict[str, Any]


def read_clip_reference() -> ClipReference:
    tensors = load_file(FIXTURES / "clip_small.safetensors")
    about = json.loads((FIXTURES / "clip_small.json").read_text(encoding="utf-8"))
    weights = {
        name.removeprefix("weights/"): tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in tensors.items()
        if name.startswith("weights/")
    }
    outputs = tensors["outputs/image"], tensors["outputs/text"]
    return ClipReference(weights, tensors["inputs/pixels"], *outputs, about)


def sizes_of(reference: ClipReference) -> tuple[ResNetSizes, TextSizes]:
    sizes = reference.about["sizes"]
    vision, text, dim = sizes["vision_cfg"], sizes["text_cfg"], sizes["embed_dim"]
    names = ("vocab_size", "context_length", "width", "heads", "layers")
    return (
        ResNetSizes(vision["image_size"], vision["width"], tuple(vision["layers"]), dim),
        TextSizes(*(text[name] for name in names), dim),
    )


def empty_clip(reference: ClipReference) -> Clip:
    """The small model with our code, its weights uninitialised."""
    return sized(*sizes_of(reference), tokenizer_of(read_merges(MERGES)), None)


def filled_clip(reference: ClipReference) -> Clip:
    """The small model with our code and the reference's weights."""
    clip = empty_clip(reference)
    clip.load_state_dict(clip_tensors(reference.weights, clip.state_dict(), FIXTURES))
    return clip
