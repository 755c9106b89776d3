"""The published files of BLIP-2 from LAVIS' layout to transformers', and back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from hsfiq.atomic_files import sync
from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.architectures import ARCHITECTURES, Architecture
from hsfiq.model.encoders.hf import folder as hf_folder
from hsfiq.model.encoders.hf.conversion import (
    VIT,
    beside,
    lavis_names,
    require_names,
    to_hf,
    to_lavis,
)
from hsfiq.model.encoders.hf.encoder import hf_parts
from hsfiq.model.encoders.weights import (
    BERT_CONFIG,
    BERT_VOCABULARY,
    read_tensors,
    read_words,
    require_files,
    require_shapes,
)


def lavis_to_hf(architecture: Architecture, source: Path, out: Path) -> int:
    """Convert LAVIS' files to a folder that `blip2-hf` and transformers load.

    Every tensor keeps its precision.

    Args:
        architecture: of the files, with EVA's image encoder.
        source: the folder of LAVIS' files.
        out: is made; written whole or not at all.

    Returns:
        How many tensors transformers' model has.

    Raises:
        UnreadableInput: files or tensors are missing, unknown, damaged or of another shape; `out`
            is there already, or cannot be written.
        HsfiqError: transformers is not installed.
    """
    if architecture.vit.kind != "eva":
        raise UnreadableInput(
            architecture.name, "has CLIP's image encoder, and transformers' BLIP-2 has EVA's"
        )
    require_files(architecture, source)
    require_new(out)
    model = hf_parts()
    words = read_words(source / BERT_VOCABULARY)
    bert = hf_folder.read_json(source / BERT_CONFIG)
    config = model.config_of(architecture.vit, bert, len(words) + 1)
    wanted = model.shapes(config, str(source / BERT_CONFIG))
    tensors = lavis_tensors(architecture, source, wanted)
    checkpoint = source / architecture.checkpoint
    converted = to_hf(tensors, str(checkpoint))
    require_shapes(converted, wanted, checkpoint)
    with whole_folder(out) as draft:
        config.save_pretrained(draft)
        model.tokenizer_of(words).save_pretrained(draft)
        (draft / hf_folder.VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")
        write_safetensors(converted, draft / hf_folder.WEIGHTS)
        write_safetensors(beside(tensors), draft / hf_folder.BESIDE)
    return len(converted)


def lavis_tensors(
    architecture: Architecture, source: Path, wanted: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Read LAVIS' files as one model's tensors, without the blocks that BLIP-2 does not use.

    Args:
        architecture: of the files.
        source: their folder.
        wanted: the tensors to be made of them, by transformers' names.

    Raises:
        UnreadableInput: one that is needed is missing, or a file is damaged.
    """
    names = [name for it in wanted for name in lavis_names(it)]
    tensors: dict[str, Tensor] = {}
    if architecture.vit_file is not None:
        whole = read_tensors(source / architecture.vit_file)
        vit = {f"{VIT}{name}": it for name, it in whole.items()}
        tensors = {name: it for name, it in vit.items() if name in names}
    tensors |= read_tensors(source / architecture.checkpoint, key="model")
    absent = [name for name in names if name.startswith(VIT)]
    require_names(absent, tensors, str(source / (architecture.vit_file or architecture.checkpoint)))
    require_names(names, tensors, str(source / architecture.checkpoint))
    return tensors


def hf_to_lavis(source: Path, out: Path) -> Architecture:
    """Convert a folder of transformers' layout to LAVIS' files.

    Args:
        source: `Salesforce/blip2-itm-vit-g` or `-coco`, or what `lavis_to_hf` wrote.
        out: is made; written whole or not at all.

    Returns:
        Whose files they are.

    Raises:
        UnreadableInput: as `lavis_to_hf`, or LAVIS publishes no such model.
        HsfiqError: transformers is not installed.
    """
    hf_folder.require_files(source)
    require_new(out)
    model = hf_parts()
    config = model.read_config(source)
    architecture = published(model.vit_of(config), source)
    wanted = model.shapes(config, str(source / hf_folder.CONFIG))
    tensors = hf_folder.read_weights(source)
    require_names(wanted, tensors, str(source / hf_folder.WEIGHTS))
    converted = to_lavis(tensors, str(source / hf_folder.WEIGHTS))
    known = {name: it for name, it in tensors.items() if name in wanted}
    require_shapes(known, wanted, source / hf_folder.WEIGHTS)
    converted |= hf_folder.read_beside(source)
    words = hf_folder.vocabulary(source)
    qformer = config.qformer_config.to_dict()
    bert = {"model_type": "bert", **{key: qformer[key] for key in model.QFORMER}}
    with whole_folder(out) as draft:
        (draft / BERT_CONFIG).parent.mkdir()
        settings = json.dumps({**bert, "vocab_size": len(words)}, indent=2) + "\n"
        (draft / BERT_CONFIG).write_text(settings, encoding="utf-8")
        (draft / BERT_VOCABULARY).write_text("\n".join(words) + "\n", encoding="utf-8")
        write_lavis(architecture, converted, draft)
    return architecture


def published(vit: Any, source: Path) -> Architecture:
    """The published model with this image encoder.

    Raises:
        UnreadableInput: there is none.
    """
    for architecture in ARCHITECTURES.values():
        if architecture.vit == vit:
            return architecture
    raise UnreadableInput(str(source / hf_folder.CONFIG), f"LAVIS publishes no BLIP-2 with {vit}")


def write_lavis(architecture: Architecture, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Write the PyTorch files of LAVIS' layout."""
    # Tensors of a safetensors file may share its storage, which torch would save with each file.
    rest = {name: it.clone() for name, it in tensors.items()}
    if architecture.vit_file is not None:
        names = [name for name in rest if name.startswith(VIT)]
        vit = {name.removeprefix(VIT): rest.pop(name) for name in names}
        torch.save(vit, folder / architecture.vit_file)
    torch.save({"model": rest}, folder / architecture.checkpoint)


def write_safetensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write a safetensors file as transformers does, tensors under two names twice."""
    file.touch()
    mode = file.stat().st_mode
    copies = {name: it.clone().contiguous() for name, it in tensors.items()}
    save_file(copies, file, metadata={"format": "pt"})
    file.chmod(mode)  # safetensors lets nobody else read it


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A draft folder that becomes `out` when the block has ended well.

    Raises:
        UnreadableInput: `out` is there and not empty, or cannot be written.
    """
    require_new(out)
    draft = out.with_name(f".{out.name}-{os.getpid()}.draft")
    try:
        draft.mkdir(parents=True)
        yield draft
        for path in (*draft.rglob("*"), draft):
            sync(path)
        draft.replace(out)
        sync(out.parent)
    except (OSError, SafetensorError) as error:
        said = getattr(error, "strerror", None) or error
        raise UnreadableInput(str(out), f"cannot be written ({said})") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def require_new(out: Path) -> None:
    """Refuse to write where something is.

    Raises:
        UnreadableInput: `out` is there, and no empty folder.
    """
    # A draft beside it needs its name, and "." has none.
    if not out.name or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise UnreadableInput(str(out), "is there already", "name another --out")
