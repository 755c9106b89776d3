"""Stored outputs of a small BLIP in LAVIS; `make_blip_reference.py` makes the files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from safetensors.torch import load_file
from torch import Tensor

from hsfiq.model.retrieval.blip import Blip, BlipSizes, sized
from hsfiq.model.retrieval.weights import blip_tensors

FIXTURES = Path(__file__).parents[1] / "fixtures"

SomeBlip = TypeVar("SomeBlip", bound=Blip)


@dataclass(frozen=True)
class BlipReference:
    """Inputs and outputs of LAVIS' model.

    Attributes:
        weights: its whole state, by the names of BLIP's files.
        pixels: [N, 3, size, size] float32.
        outputs: `tokens` [N, P, W], `image` [N, D], `text` [B, D], `fused` [B, D].
        about: `sizes`, `words`, `texts` (B; in `fused`, text i reads image i mod N), `tokenized`
            (texts with their ids), `versions`.
    """

    weights: dict[str, Tensor]
    pixels: Tensor
    outputs: dict[str, Tensor]
    about: dict[str, Any]


def read_blip_reference() -> BlipReference:
    tensors = load_file(FIXTURES / "blip_small.safetensors")
    about = json.loads((FIXTURES / "blip_small.json").read_text(encoding="utf-8"))
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "outputs": {}, "inputs": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor.float() if tensor.is_floating_point() else tensor
    return BlipReference(parts["weights"], parts["inputs"]["pixels"], parts["outputs"], about)


def empty_blip(reference: BlipReference, kind: type[SomeBlip]) -> SomeBlip:
    """The small model with our code, its weights uninitialised."""
    return sized(kind, BlipSizes(**reference.about["sizes"]), reference.about["words"], None)


def filled_blip(reference: BlipReference, kind: type[SomeBlip]) -> SomeBlip:
    """The small model with our code and the reference's weights."""
    blip = empty_blip(reference, kind)
    blip.load_state_dict(blip_tensors(reference.weights, blip.state_dict(), FIXTURES))
    return blip
