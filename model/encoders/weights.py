"""The published weights of BLIP-2: which files, from where, and whether they are whole.

Nothing is ever downloaded: a message says what to fetch and where to put it.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput
from hsfiq.model.encoders.architectures import Architecture, Vit

LAVIS_STORE = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2"
BERT_STORE = "https://huggingface.co/bert-base-uncased/resolve/main"

BERT = "bert-base-uncased"
BERT_CONFIG, BERT_VOCABULARY = f"{BERT}/config.json", f"{BERT}/vocab.txt"

SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

DAMAGES = (
    *(pickle.UnpicklingError, struct.error, RuntimeError, OSError, EOFError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""What `torch.load` raises on a file that is cut off, or that is not PyTorch's."""


def default_folder() -> Path:
    """`$HSFIQ_WEIGHTS`, else `~/.cache/hsfiq/weights`."""
    named = os.environ.get("HSFIQ_WEIGHTS")
    return Path(named) if named else Path.home() / ".cache" / "hsfiq" / "weights"


def urls(architecture: Architecture) -> dict[str, str]:
    """Where each file of a model is published, by its path below the folder of weights."""
    published = filter(None, (architecture.checkpoint, architecture.vit_file))
    return {
        **{file: f"{LAVIS_STORE}/{file}" for file in published},
        **{file: f"{BERT_STORE}/{Path(file).name}" for file in (BERT_CONFIG, BERT_VOCABULARY)},
    }


def require_files(architecture: Architecture, folder: Path) -> None:
    """See that every file of a model is there.

    Raises:
        UnreadableInput: some are not; they are named with their URLs.
    """
    missing = [
        f"{file} ({url})"
        for file, url in urls(architecture).items()
        if not (folder / file).is_file()
    ]
    if missing:
        raise UnreadableInput(
            str(folder),
            f"{architecture.name} lacks {', '.join(missing)}",
            "download them there, or name the folder that has them with --weights",
        )


def read_words(file: Path) -> list[str]:
    """Read a vocabulary, a word a line, with the words without which BERT reads nothing.

    Raises:
        UnreadableInput: it is not text, or one of them is missing.
    """
    try:
        # Words may hold what `splitlines` takes for the end of one.
        words = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableInput(str(file), "is not UTF-8 text", "download it again") from error
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise UnreadableInput(str(file), f"lacks {', '.join(missing)}", "download it again")
    return words


def read_tensors(file: Path, key: str | None = None) -> dict[str, Tensor]:
    """Read a PyTorch file of tensors by name, on the CPU.

    Args:
        file: as `torch.save` wrote it.
        key: under which the tensors are, where they are not the whole of the file.

    Raises:
        UnreadableInput: the file is cut off or damaged, or holds something else.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except DAMAGES as error:
        raise UnreadableInput(
            str(file), f"is no whole PyTorch file ({type(error).__name__})", "download it again"
        ) from error
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        place = f" under the key {key!r}" if key is not None else ""
        raise UnreadableInput(str(file), f"holds no tensors by name{place}")
    return content


def fill(
    module: nn.Module, tensors: Mapping[str, Tensor], file: Path, optional: tuple[str, ...] = ()
) -> None:
    """Copy what a module needs into it, and leave aside what it does not know.

    The image encoders' files hold blocks that BLIP-2 does not use, so that a tensor too many is
    no mistake; one too few is.

    Args:
        module: changed only where everything fits.
        tensors: by the names of the module's own state.
        file: where they come from, for the message.
        optional: beginnings of names that may be missing: they stay as they are.

    Raises:
        UnreadableInput: a tensor is missing, or has another shape.
    """
    wanted: dict[str, Tensor] = module.state_dict()
    missing = [n for n in wanted if n not in tensors and not n.startswith(optional)]
    if missing:
        unknown = [name for name in tensors if name not in wanted]
        has = f" and has {some(unknown)}" if unknown else ""
        raise UnreadableInput(str(file), f"lacks {some(missing)}{has}", "it is of another model")
    usable = {name: tensors[name] for name in wanted if name in tensors}
    require_shapes(usable, wanted, file)
    module.load_state_dict(usable, strict=False)


def require_shapes(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], file: Path) -> None:
    """See that tensors have the shapes of those wanted under their names.

    Raises:
        UnreadableInput: one has another.
    """
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{list(tensor.shape)}, not {list(wanted[name].shape)}"
            raise UnreadableInput(str(file), f"{name} is {shapes}", "it is of another model")


def frozen_id(vit: Vit, weights: Mapping[str, Tensor]) -> str:
    """The sha256 of an image encoder's settings and weights.

    Args:
        vit: the settings.
        weights: float32, by LAVIS' names, whichever library computes with them.
    """
    digest = sha256(repr(vit).encode())
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def some(names: list[str]) -> str:
    """The first two names, and how many more there are."""
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
