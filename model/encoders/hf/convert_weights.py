"""The published files of BLIP-2 from LAVIS' layout to transformers', and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from hsfiq.atomic_files import draft_folder, explained_write_errors
from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints.checkpoint import write_safetensors
from hsfiq.model.encoders.blip2_architectures import ARCHITECTURES, Architecture
from hsfiq.model.encoders.blip2_weights import (
    BERT_CONFIG,
    BERT_VOCABULARY,
    read_tensors,
    read_words,
    require_files,
    require_shapes,
)
from hsfiq.model.encoders.hf import weight_files
from hsfiq.model.encoders.hf.model import (
    QFORMER,
    config_of,
    read_config,
    require_transformers,
    shapes,
    tokenizer_of,
    vit_of,
)
from hsfiq.model.encoders.hf.tensor_names import (
    VIT,
    lavis_names,
    lavis_only,
    require_names,
    to_hf,
    to_lavis,
)


def lavis_to_hf(architecture: Architecture, source: Path, out: Path) -> int:
    """Convert LAVIS' files to a folder that `blip2-hf` and transformers load.

    Every tensor keeps its precision; `out` is written completely or not at all. Returns the number
    of tensors that transformers' model has. UnreadableInput if `out` exists, or a tensor is
    missing, unknown, damaged or of another shape.
    """
    if architecture.vit.kind != "eva":
        raise UnreadableInput(
            architecture.name, "has CLIP's image encoder, and transformers' BLIP-2 has EVA's"
        )
    require_files(architecture, source)
    require_new(out)
    require_transformers("blip2-hf")
    words = read_words(source / BERT_VOCABULARY)
    bert = weight_files.read_json(source / BERT_CONFIG)
    config = config_of(architecture.vit, bert, len(words) + 1)
    wanted = shapes(config, str(source / BERT_CONFIG))
    tensors = lavis_tensors(architecture, source, wanted)
    checkpoint = source / architecture.checkpoint
    converted = to_hf(tensors, str(checkpoint))
    require_shapes(converted, wanted, checkpoint)
    with atomic_folder(out) as draft:
        config.save_pretrained(draft)
        tokenizer_of(words).save_pretrained(draft)
        (draft / weight_files.VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")
        for part, name in (
            (converted, weight_files.WEIGHTS),
            (lavis_only(tensors), weight_files.LAVIS_ONLY),
        ):
            # safetensors refuses tensors that share a storage.
            copies = {key: tensor.clone().contiguous() for key, tensor in part.items()}
            write_safetensors(copies, draft / name, {"format": "pt"})
    return len(converted)


def lavis_tensors(
    architecture: Architecture, source: Path, wanted: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Read LAVIS' files as one model's tensors, without the blocks that BLIP-2 does not use.

    `wanted` are the tensors to convert them to, by transformers' names. Raises UnreadableInput if
    a tensor is missing or a file is damaged.
    """
    names = [name for hf_name in wanted for name in lavis_names(hf_name)]
    tensors: dict[str, Tensor] = {}
    if architecture.vit_file is not None:
        vit = read_tensors(source / architecture.vit_file)
        tensors = {f"{VIT}{name}": vit[name] for name in vit if f"{VIT}{name}" in names}
    tensors |= read_tensors(source / architecture.checkpoint, key="model")
    absent = [name for name in names if name.startswith(VIT)]
    require_names(absent, tensors, str(source / (architecture.vit_file or architecture.checkpoint)))
    require_names(names, tensors, str(source / architecture.checkpoint))
    return tensors


def hf_to_lavis(source: Path, out: Path) -> Architecture:
    """Convert a folder of transformers' layout to LAVIS' files, and return their architecture.

    `source` is `Salesforce/blip2-itm-vit-g` or `-coco`, or what `lavis_to_hf` wrote. Raises as
    `lavis_to_hf`, and UnreadableInput if LAVIS publishes no such model.
    """
    weight_files.require_files(source)
    require_new(out)
    require_transformers("blip2-hf")
    config = read_config(source)
    vit = vit_of(config)
    architecture = next((known for known in ARCHITECTURES.values() if known.vit == vit), None)
    if architecture is None:
        raise UnreadableInput(
            str(source / weight_files.CONFIG), f"LAVIS publishes no BLIP-2 with {vit}"
        )
    wanted = shapes(config, str(source / weight_files.CONFIG))
    tensors, weights = weight_files.read_weights(source), source / weight_files.WEIGHTS
    require_names(wanted, tensors, str(weights))
    converted = to_lavis(tensors, str(weights))
    require_shapes({name: tensors[name] for name in tensors if name in wanted}, wanted, weights)
    converted |= weight_files.read_lavis_only(source)
    words = weight_files.vocabulary(source)
    qformer_config: Any = config.qformer_config
    qformer = qformer_config.to_dict()
    bert = {"model_type": "bert", **{key: qformer[key] for key in QFORMER}}
    with atomic_folder(out) as draft:
        (draft / BERT_CONFIG).parent.mkdir()
        settings = json.dumps({**bert, "vocab_size": len(words)}, indent=2) + "\n"
        (draft / BERT_CONFIG).write_text(settings, encoding="utf-8")
        (draft / BERT_VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")
        write_lavis(architecture, converted, draft)
    return architecture


def write_lavis(architecture: Architecture, tensors: Mapping[str, Tensor], folder: Path) -> None:
    # Tensors of a safetensors file may share a storage, which torch would save completely.
    rest = {name: tensor.clone() for name, tensor in tensors.items()}
    if architecture.vit_file is not None:
        names = [name for name in rest if name.startswith(VIT)]
        vit = {name.removeprefix(VIT): rest.pop(name) for name in names}
        torch.save(vit, folder / architecture.vit_file)
    torch.save({"model": rest}, folder / architecture.checkpoint)


@contextmanager
def atomic_folder(out: Path) -> Iterator[Path]:
    """A draft folder that becomes `out`, unless the block raises; UnreadableInput if it cannot."""
    require_new(out)
    with explained_write_errors(out), draft_folder(out) as draft:
        try:
            yield draft
        except SafetensorError as error:
            raise UnreadableInput(str(out), f"cannot be written ({error})") from error


def require_new(out: Path) -> None:
    """Raise UnreadableInput unless `out` is absent or an empty folder."""
    # The draft's name is made from that of `out`, and "." has none.
    if not out.name or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise UnreadableInput(str(out), "exists already", "name another --out")
