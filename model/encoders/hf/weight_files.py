"""The files of BLIP-2 in transformers' layout: their names, their source and their content.

The folder is a copy of a repository of the Hugging Face hub. Nothing is downloaded: a message says
what to fetch and where to put it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.blip2_weights import default_folder, read_words

REPOSITORY = "Salesforce/blip2-itm-vit-g"
URL = f"https://huggingface.co/{REPOSITORY}"

CONFIG = "config.json"
WEIGHTS, PARTS = "model.safetensors", "model.safetensors.index.json"
"""One file of tensors, or the list of several."""
VOCABULARY, TOKENIZER = "vocab.txt", "tokenizer.json"
"""Both hold the words; the first is preferred."""
LAVIS_ONLY = "lavis.safetensors"
"""Tensors that LAVIS has and transformers lacks: the temperature, and a head that no score uses."""

AGAIN = "download it again"


def usual_folder() -> Path:
    return default_folder() / REPOSITORY.rpartition("/")[2]


def require_files(folder: Path) -> None:
    missing = [
        " or ".join(names)
        for names in ((CONFIG,), (WEIGHTS, PARTS), (VOCABULARY, TOKENIZER))
        if not any((folder / name).is_file() for name in names)
    ]
    if not missing and not (folder / WEIGHTS).is_file():
        missing = [name for name in parts(folder) if not (folder / name).is_file()]
    if missing:
        raise UnreadableInput(
            str(folder),
            f"blip2-hf lacks {', '.join(missing)} ({URL})",
            f"fetch them (hf download {REPOSITORY} --local-dir {folder}), convert LAVIS' files "
            "(hsfiq weights convert), or name the folder that has them with --weights",
        )


def parts(folder: Path) -> list[str]:
    """The files that the list of parts names."""
    files = read_json(folder / PARTS).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise UnreadableInput(str(folder / PARTS), "lists no files of tensors", AGAIN)
    return sorted({Path(name).name for name in files.values()})


def read_weights(folder: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name in [WEIGHTS] if (folder / WEIGHTS).is_file() else parts(folder):
        tensors |= read_safetensors(folder / name)
    return tensors


def read_lavis_only(folder: Path) -> dict[str, Tensor]:
    """Read the tensors that only LAVIS has; none if the folder was not converted from its files."""
    file = folder / LAVIS_ONLY
    return read_safetensors(file) if file.is_file() else {}


def read_safetensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise UnreadableInput(
            str(file), f"is not a complete safetensors file ({type(error).__name__})", AGAIN
        ) from error


def vocabulary(folder: Path) -> list[str]:
    """The tokenizer's words in the order of their ids, without tokens added to BERT's."""
    if (folder / VOCABULARY).is_file():
        return read_words(folder / VOCABULARY)
    file = folder / TOKENIZER
    model = read_json(file).get("model")
    ids = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(ids, dict) or sorted(ids.values()) != list(range(len(ids))):
        raise UnreadableInput(str(file), "holds no BERT vocabulary", AGAIN)
    return sorted(ids, key=ids.__getitem__)


def read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableInput(str(file), "is not a JSON file", AGAIN) from error
    if not isinstance(content, dict):
        raise UnreadableInput(str(file), "holds no JSON object", AGAIN)
    return content
