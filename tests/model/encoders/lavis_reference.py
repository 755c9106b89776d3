"""Stored outputs of a small BLIP-2 in LAVIS: `tests/lavis` makes and checks the files.

LAVIS and a current transformers exclude each other, so the outputs are exchanged through files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from hsfiq.model.encoders.blip2_weights import Architecture, Vit

FIXTURES = Path(__file__).parents[1] / "fixtures"
TENSORS = FIXTURES / "blip2_small.safetensors"
ABOUT = FIXTURES / "blip2_small.json"

SMALL = Architecture(
    "blip2-small", Vit("eva", size=42, width=24, blocks=2, heads=2), "small.pth", "eva_small.pth"
)
VIT = "visual_encoder."


@dataclass(frozen=True)
class Reference:
    """Inputs and outputs of LAVIS' model.

    Attributes:
        weights: the model's whole state, by LAVIS' names.
        pixels: [N, 3, size, size] float32.
        outputs: `tokens` [N, P, W], `gallery` [N, L, D], `query` [B, D], `scores` [B, N].
        about: `bert`, `words`, `texts` (B; text i goes with image i mod N), `tokenized` (texts
            with their word ids), `trained` (names of parameters), `frozen_id`, `ln_vision_eps`,
            `versions`.
    """

    weights: dict[str, Tensor]
    pixels: Tensor
    outputs: dict[str, Tensor]
    about: dict[str, Any]


def read_reference() -> Reference:
    tensors = load_file(TENSORS)
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "outputs": {}, "inputs": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    about = json.loads(ABOUT.read_text(encoding="utf-8"))
    pixels = parts["inputs"]["pixels"].float()
    return Reference(parts["weights"], pixels, parts["outputs"], about)


def write_lavis_files(
    folder: Path, weights: dict[str, Tensor], bert: dict[str, Any], words: list[str]
) -> Path:
    """Write files as published, with one block more than BLIP-2 uses."""
    texts = folder / "bert-base-uncased"
    texts.mkdir(parents=True)
    (texts / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (texts / "config.json").write_text(json.dumps(bert))
    vit = {
        name.removeprefix(VIT): weight for name, weight in weights.items() if name.startswith(VIT)
    }
    surplus = {"blocks.2.norm1.weight": torch.zeros(24), "norm.bias": torch.zeros(24)}
    assert SMALL.vit_file is not None
    torch.save(vit | surplus, folder / SMALL.vit_file)
    other_weights = {name: weight for name, weight in weights.items() if not name.startswith(VIT)}
    torch.save({"model": other_weights}, folder / SMALL.checkpoint)
    return folder


def write_reference(folder: Path) -> Path:
    """Write the reference's weights as LAVIS' files."""
    reference = read_reference()
    return write_lavis_files(
        folder, reference.weights, reference.about["bert"], reference.about["words"]
    )


def references(tokens: Tensor, texts: list[str]) -> Tensor:
    """Text i goes with image i mod N: [B, P, W]."""
    return tokens[torch.arange(len(texts)) % len(tokens)]
