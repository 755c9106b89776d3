"""BLIP-2's tensors under LAVIS' names and under transformers' names.

Three things differ besides the names. EVA's attention has a bias for queries and values but none
for keys; transformers joins them into one tensor, with zeros between. LAVIS' state has a buffer of
position ids. And transformers has neither the temperature nor the language model's head:
`lavis_only` selects them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import torch
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import first_two

VIT = "visual_encoder."
"""The prefix of the image encoder's tensors in LAVIS."""

HF_VIT = ("vision_model.embeddings.", "vision_model.encoder.")
"""The same in transformers; its `post_layernorm` is LAVIS' `ln_vision`, which is trained."""

LAVIS_ONLY = ("temp", "Qformer.cls.")
"""Prefixes of LAVIS' names for which transformers has none."""

POSITION_IDS = "Qformer.bert.embeddings.position_ids"
_POSITIONS = "embeddings.position_embeddings.weight"

_TENSORS: Final = {
    "query_tokens": "query_tokens",
    "visual_encoder.cls_token": "vision_model.embeddings.class_embedding",
    "visual_encoder.pos_embed": "vision_model.embeddings.position_embedding",
    "visual_encoder.blocks.#.attn.qkv.weight": "vision_model.encoder.layers.#.self_attn.qkv.weight",
}
"""Tensors: the name in LAVIS and in transformers; `#` stands for a layer's number."""

_LAYER: Final = tuple(
    (f"{part}.self.{of}", f"{part}.attention.{of}")
    for part in ("attention", "crossattention")
    for of in ("query", "key", "value")
) + tuple(
    (name, name)
    for part in ("attention.output", "crossattention.output", "output", "output_query")
    for name in (f"{part}.dense", f"{part}.LayerNorm")
)
_MODULES: Final = {
    "visual_encoder.patch_embed.proj": "vision_model.embeddings.patch_embedding",
    "visual_encoder.blocks.#.norm1": "vision_model.encoder.layers.#.layer_norm1",
    "visual_encoder.blocks.#.norm2": "vision_model.encoder.layers.#.layer_norm2",
    "visual_encoder.blocks.#.attn.proj": "vision_model.encoder.layers.#.self_attn.projection",
    "visual_encoder.blocks.#.mlp.fc1": "vision_model.encoder.layers.#.mlp.fc1",
    "visual_encoder.blocks.#.mlp.fc2": "vision_model.encoder.layers.#.mlp.fc2",
    "ln_vision": "vision_model.post_layernorm",
    "Qformer.bert.embeddings.word_embeddings": "embeddings.word_embeddings",
    "Qformer.bert.embeddings.position_embeddings": "embeddings.position_embeddings",
    "Qformer.bert.embeddings.LayerNorm": "qformer.layernorm",
    **{f"Qformer.bert.encoder.layer.#.{a}": f"qformer.encoder.layer.#.{b}" for a, b in _LAYER},
    "Qformer.bert.encoder.layer.#.intermediate.dense": "qformer.encoder.layer.#.intermediate.dense",
    "Qformer.bert.encoder.layer.#.intermediate_query.dense": (
        "qformer.encoder.layer.#.intermediate_query.dense"
    ),
    "vision_proj": "vision_projection",
    "text_proj": "text_projection",
    "itm_head": "itm_head",
}
"""Modules with a weight, a bias or both: the name in LAVIS and in transformers."""

_TO_HF: Final = _TENSORS | {
    f"{lavis}.{parameter}": f"{hf}.{parameter}"
    for lavis, hf in _MODULES.items()
    for parameter in ("weight", "bias")
}
_TO_LAVIS: Final = {hf: lavis for lavis, hf in _TO_HF.items()}

_Q_BIAS = re.compile(r"visual_encoder\.blocks\.(\d+)\.attn\.q_bias")
_V_BIAS = re.compile(r"visual_encoder\.blocks\.(\d+)\.attn\.v_bias")
_QKV_BIAS = re.compile(r"vision_model\.encoder\.layers\.(\d+)\.self_attn\.qkv\.bias")
_NUMBER = re.compile(r"\.(\d+)\.")


def hf_name(name: str) -> str | None:
    """The name in transformers of a LAVIS tensor; None if it has no such tensor."""
    return _other(name, _TO_HF)


def lavis_names(name: str) -> tuple[str, ...]:
    """The LAVIS names of a transformers tensor: one, two for a joint bias, or none."""
    joint = _QKV_BIAS.fullmatch(name)
    if joint:
        return tuple(f"{VIT}blocks.{joint[1]}.attn.{letter}_bias" for letter in "qv")
    lavis_name = _other(name, _TO_LAVIS)
    return () if lavis_name is None else (lavis_name,)


def to_hf(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Rename all or some of LAVIS' tensors to transformers' names, without those of `lavis_only`.

    UnreadableInput for a name that BLIP-2 with EVA's image encoder lacks, or half of a bias.
    """
    converted: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in tensors.items():
        new_name = hf_name(name)
        if new_name is not None:
            converted[new_name] = tensor
        elif is_q := _Q_BIAS.fullmatch(name):
            v_bias = _required(f"{VIT}blocks.{is_q[1]}.attn.v_bias", tensors, where)
            joint = torch.cat([tensor, torch.zeros_like(tensor), v_bias])  # [3W]
            converted[f"vision_model.encoder.layers.{is_q[1]}.self_attn.qkv.bias"] = joint
        elif is_v := _V_BIAS.fullmatch(name):
            _required(f"{VIT}blocks.{is_v[1]}.attn.q_bias", tensors, where)
        elif name != POSITION_IDS and not name.startswith(LAVIS_ONLY):
            unknown.append(name)
    _refuse(unknown, where, "LAVIS' BLIP-2 with EVA's image encoder")
    return converted


def lavis_only(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name.startswith(LAVIS_ONLY)}


def to_lavis(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """Rename all or some of transformers' tensors to LAVIS' names.

    UnreadableInput for a name that `Blip2ForImageTextRetrieval` lacks, or a bias for keys.
    """
    converted: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in tensors.items():
        names = lavis_names(name)
        if len(names) == 2:
            q_bias, k_bias, v_bias = tensor.chunk(3)  # each [W]
            if k_bias.any():
                raise UnreadableInput(where, f"{name} has a bias for keys, and LAVIS has none")
            converted |= dict(zip(names, (q_bias.clone(), v_bias.clone()), strict=True))
        elif names:
            converted[names[0]] = tensor
        elif name != "embeddings.position_ids":  # from older versions of transformers
            unknown.append(name)
    _refuse(unknown, where, "transformers' Blip2ForImageTextRetrieval")
    if _POSITIONS in tensors:
        converted[POSITION_IDS] = torch.arange(len(tensors[_POSITIONS]))[None]  # [1, positions]
    return converted


def require_names(wanted: Iterable[str], tensors: Mapping[str, Tensor], where: str) -> None:
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise UnreadableInput(where, f"lacks {first_two(missing)}", "it is of another model")


def _other(name: str, names: Mapping[str, str]) -> str | None:
    """A tensor's other name, whatever its layer's number."""
    number = _NUMBER.search(name)
    other = names.get(_NUMBER.sub(".#.", name, count=1))
    return other.replace("#", number[1]) if other and number else other


def _required(name: str, tensors: Mapping[str, Tensor], where: str) -> Tensor:
    require_names([name], tensors, where)
    return tensors[name]


def _refuse(unknown: list[str], where: str, model: str) -> None:
    if unknown:
        raise UnreadableInput(where, f"has {first_two(unknown)}, unknown to {model}")
