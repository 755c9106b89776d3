"""A folder with BLIP-2 as transformers keeps it: which files, from where, and what is in them.

The folder is a copy of a repository of Hugging Face's hub. Nothing is ever downloaded: a message
says what to fetch and where to put it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.weights import default_folder, read_words

REPOSITORY = "Salesforce/blip2-itm-vit-g"
URL = f"https://huggingface.co/{REPOSITORY}"

CONFIG = "config.json"
WEIGHTS, PARTS = "model.safetensors", "model.safetensors.index.json"
"""One file of tensors, or several and the list of them."""
VOCABULARY, TOKENIZER = "vocab.txt", "tokenizer.json"
"""Both hold the words; the first is read where both are there."""
BESIDE = "lavis.safetensors"
"""What LAVIS has and transformers has not: the temperature, and a head that no score needs."""

AGAIN = "download it again"


def usual_folder() -> Path:
    """`blip2-itm-vit-g` in the folder of weights."""
    return default_folder() / REPOSITORY.rpartition("/")[2]


def require_files(folder: Path) -> None:
    """See that every file is there.

    Raises:
        UnreadableInput: some are not; they are named with where they are published.
    """
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
    """The files that the list of parts names.

    Raises:
        UnreadableInput: it is no such list.
    """
    files = read_json(folder / PARTS).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(it, str) for it in files.values()):
        raise UnreadableInput(str(folder / PARTS), "lists no files of tensors", AGAIN)
    return sorted({Path(name).name for name in files.values()})


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read the model's tensors, on the CPU.

    Raises:
        UnreadableInput: a file is cut off or damaged.
    """
    whole = (folder / WEIGHTS).is_file()
    tensors: dict[str, Tensor] = {}
    for name in [WEIGHTS] if whole else parts(folder):
        tensors |= read_safetensors(folder / name)
    return tensors


def read_beside(folder: Path) -> dict[str, Tensor]:
    """Read what only LAVIS has; nothing where the folder was not converted from its files.

    Raises:
        UnreadableInput: the file is damaged.
    """
    file = folder / BESIDE
    return read_safetensors(file) if file.is_file() else {}


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        UnreadableInput: it is none, or it is cut off.
    """
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        what = f"is no whole safetensors file ({type(error).__name__})"
        raise UnreadableInput(str(file), what, AGAIN) from error


def vocabulary(folder: Path) -> list[str]:
    """The tokenizer's words in the order of their ids, without those added to BERT's.

    Raises:
        UnreadableInput: neither file holds BERT's words.
    """
    if (folder / VOCABULARY).is_file():
        return read_words(folder / VOCABULARY)
    file = folder / TOKENIZER
    found = read_json(file).get("model")
    ids = found.get("vocab") if isinstance(found, dict) else None
    if not isinstance(ids, dict) or sorted(ids.values()) != list(range(len(ids))):
        raise UnreadableInput(str(file), "holds no vocabulary of BERT's kind", AGAIN)
    return sorted(ids, key=ids.__getitem__)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UnreadableInput: the file holds none.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableInput(str(file), "is no JSON file", AGAIN) from error
    if not isinstance(content, dict):
        raise UnreadableInput(str(file), "holds no JSON object", AGAIN)
    return content
