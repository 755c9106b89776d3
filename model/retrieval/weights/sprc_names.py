"""SPRC's tensors, which have LAVIS' names, as those of BLIP-2 through transformers.

Its file holds the image encoder too, which SPRC does not train.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.hf.tensor_names import HF_VIT, to_hf
from hsfiq.model.retrieval.systems.sprc import Sprc
from hsfiq.model.retrieval.weights.checks import REMEDY, matched, require_like

PROMPTS, TEMPERATURE = "prompt_tokens", "temp"

CLIP_NORM = "visual_encoder.ln_pre.weight"
"""Of CLIP's ViT alone, which the files with `vitl` in their names hold."""

_HF = "encoder.hf."


def fill_sprc(system: Sprc, published: Mapping[str, Tensor], file: Path) -> None:
    """Give SPRC on `blip2-hf` the weights of its file; the image encoder has to be the same.

    UnreadableInput, as `matched`, and for another image encoder.
    """
    if CLIP_NORM in published:
        raise UnreadableInput(
            str(file),
            "is SPRC on CLIP's ViT-L, an image encoder that transformers' BLIP-2 lacks",
            "take the file on ViT-g (sprc_fiq.pt, sprc_cirr.pt), or train sprc-fashioniq or "
            "sprc-cirr with --set backbone=blip2-vitL",
        )
    missing = [name for name in (PROMPTS, TEMPERATURE) if name not in published]
    if missing:
        raise UnreadableInput(str(file), f"lacks {missing[0]}", REMEDY)
    prompts, temperature = published[PROMPTS], published[TEMPERATURE]
    require_like(prompts, system.prompts.unsqueeze(0), PROMPTS, file)  # [1, Q, H]
    require_like(temperature, system.temperature, TEMPERATURE, file)
    backbone = system.get_submodule("backbone")
    rest = {name: published[name] for name in published if name != PROMPTS}
    fill_backbone(backbone, to_hf(rest, str(file)), file)
    with torch.no_grad():
        system.prompts.copy_(prompts[0])
        system.temperature.copy_(temperature)


def fill_backbone(backbone: nn.Module, tensors: Mapping[str, Tensor], file: Path) -> None:
    wanted = {
        name.removeprefix(_HF): value
        for name, value in backbone.state_dict().items()
        if name.startswith(_HF)
    }
    checked = matched(tensors, wanted, str, file)
    for name, value in checked.items():
        # The published file has this part in half precision.
        if name.startswith(HF_VIT) and not torch.equal(value.half(), wanted[name].half()):
            raise UnreadableInput(
                str(file),
                f"its image encoder differs from the BLIP-2 in the folder of weights, in {name}",
                "name the folder of the BLIP-2 that it was trained on with --weights",
            )
    trained = {f"{_HF}{name}": checked[name] for name in checked if not name.startswith(HF_VIT)}
    backbone.load_state_dict(trained, strict=False)
