"""BLIP-2's weights and a scorer's checkpoints: from LAVIS' layout to transformers', and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from hsfiq.atomic_files import draft_folder, explained_write_errors
from hsfiq.errors import UnreadableInput
from hsfiq.model import checkpoints
from hsfiq.model.checkpoints import ANSWER_MODEL, Checkpoint, write_safetensors
from hsfiq.model.encoders import hf
from hsfiq.model.encoders.blip2_weights import (
    ARCHITECTURES,
    BERT_CONFIG,
    BERT_VOCABULARY,
    Architecture,
    read_tensors,
    read_words,
    require_files,
    require_shapes,
)
from hsfiq.model.encoders.hf import NAME as HF

# The published files of BLIP-2 from LAVIS' layout to transformers', and back.


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
    hf.require_transformers("blip2-hf")
    words = read_words(source / BERT_VOCABULARY)
    bert = hf.read_json(source / BERT_CONFIG)
    config = hf.config_of(architecture.vit, bert, len(words) + 1)
    wanted = hf.shapes(config, str(source / BERT_CONFIG))
    tensors = lavis_tensors(architecture, source, wanted)
    checkpoint = source / architecture.checkpoint
    converted = hf.to_hf(tensors, str(checkpoint))
    require_shapes(converted, wanted, checkpoint)
    with atomic_folder(out) as draft:
        config.save_pretrained(draft)
        hf.tokenizer_of(words).save_pretrained(draft)
        (draft / hf.VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")
        for part, name in (
            (converted, hf.WEIGHTS),
            (hf.lavis_only(tensors), hf.LAVIS_ONLY),
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
    names = [name for hf_name in wanted for name in hf.lavis_names(hf_name)]
    tensors: dict[str, Tensor] = {}
    if architecture.vit_file is not None:
        vit = read_tensors(source / architecture.vit_file)
        tensors = {f"{hf.VIT}{name}": vit[name] for name in vit if f"{hf.VIT}{name}" in names}
    tensors |= read_tensors(source / architecture.checkpoint, key="model")
    absent = [name for name in names if name.startswith(hf.VIT)]
    hf.require_names(
        absent, tensors, str(source / (architecture.vit_file or architecture.checkpoint))
    )
    hf.require_names(names, tensors, str(source / architecture.checkpoint))
    return tensors


def hf_to_lavis(source: Path, out: Path) -> Architecture:
    """Convert a folder of transformers' layout to LAVIS' files, and return their architecture.

    `source` is `Salesforce/blip2-itm-vit-g` or `-coco`, or what `lavis_to_hf` wrote. Raises as
    `lavis_to_hf`, and UnreadableInput if LAVIS publishes no such model.
    """
    hf.require_files(source)
    require_new(out)
    hf.require_transformers("blip2-hf")
    config = hf.read_config(source)
    vit = hf.vit_of(config)
    architecture = next((known for known in ARCHITECTURES.values() if known.vit == vit), None)
    if architecture is None:
        raise UnreadableInput(str(source / hf.CONFIG), f"LAVIS publishes no BLIP-2 with {vit}")
    wanted = hf.shapes(config, str(source / hf.CONFIG))
    tensors, weights = hf.read_weights(source), source / hf.WEIGHTS
    hf.require_names(wanted, tensors, str(weights))
    converted = hf.to_lavis(tensors, str(weights))
    require_shapes({name: tensors[name] for name in tensors if name in wanted}, wanted, weights)
    converted |= hf.read_lavis_only(source)
    words = hf.vocabulary(source)
    qformer_config: Any = config.qformer_config
    qformer = qformer_config.to_dict()
    bert = {"model_type": "bert", **{key: qformer[key] for key in hf.QFORMER}}
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
        names = [name for name in rest if name.startswith(hf.VIT)]
        vit = {name.removeprefix(hf.VIT): rest.pop(name) for name in names}
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


# Converting a scorer's checkpoint from `blip2-vitg` to `blip2-hf`, and back.
#
# Both train the same parameters under two names, on the same frozen image encoder. So a scorer
# trained in LAVIS' environment can be used in any other.

LAVIS = "blip2-vitg"

_LAVIS_PREFIX, _HF_PREFIX = "encoder.lavis.", "encoder.hf."


def convert(source: Path, out: Path) -> Checkpoint:
    """Write a checkpoint for the other of the two encoders, completely or not at all.

    An answer model beside the checkpoint is copied unchanged: it describes scores, and these stay
    the same. `source` is a checkpoint's JSON file, or a run's folder.

    UnreadableInput for another encoder's checkpoint or unknown tensors, and if `out` exists.
    """
    checkpoint = checkpoints.read(source)
    encoder, recipe = (checkpoint.about.get(key) for key in ("encoder", "recipe"))
    if not isinstance(encoder, dict) or not isinstance(recipe, dict):
        raise UnreadableInput(str(checkpoint.path), "does not record its encoder")
    old = encoder.get("name")
    if old not in (LAVIS, HF):
        raise UnreadableInput(
            str(checkpoint.path), f"has the encoder {old}: only {LAVIS} and {HF} can be converted"
        )
    require_new(out)
    new, rename = (HF, to_hf_name) if old == LAVIS else (LAVIS, to_lavis_name)
    tensors = {
        renamed(name, rename, checkpoint.path): tensor
        for name, tensor in checkpoint.tensors("scorer").items()
    }
    about = {
        **{k: v for k, v in checkpoint.about.items() if k not in ("format", "files")},
        "encoder": {**encoder, "name": new},
        "recipe": {**recipe, "encoder": new},
        "converted_from": {"encoder": old, "sha256": checkpoint.sha256},
    }
    answer_model = answer_model_beside(checkpoint)
    with atomic_folder(out) as draft:
        if answer_model is not None:
            (draft / ANSWER_MODEL).write_bytes(answer_model)
        saved = checkpoints.save(draft, checkpoints.BEST, about, {"scorer": tensors})
    return Checkpoint(out / saved.path.name, saved.about)


def answer_model_beside(checkpoint: Checkpoint) -> bytes | None:
    path = checkpoint.path.with_name(ANSWER_MODEL)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


def to_hf_name(name: str) -> str | None:
    there = hf.hf_name(name.removeprefix(_LAVIS_PREFIX)) if name.startswith(_LAVIS_PREFIX) else None
    return f"{_HF_PREFIX}{there}" if there else None


def to_lavis_name(name: str) -> str | None:
    names = hf.lavis_names(name.removeprefix(_HF_PREFIX)) if name.startswith(_HF_PREFIX) else ()
    return f"{_LAVIS_PREFIX}{names[0]}" if len(names) == 1 else None


def renamed(name: str, rename: Callable[[str], str | None], path: Path) -> str:
    """The new name of a checkpoint's tensor; UnreadableInput if the other encoder has none."""
    new_name = name if name == "encoder.temperature" else rename(name)
    if new_name is None:
        raise UnreadableInput(str(path), f"has {name}, unknown to the other encoder")
    return new_name
