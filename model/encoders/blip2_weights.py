"""BLIP-2's published weights in LAVIS' layout: file names, URLs, reading and checking.

Nothing is downloaded: a message says what to fetch and where to put it.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from hsfiq.errors import UnreadableInput

# The BLIP-2 models that LAVIS publishes: their image encoders and their files.

PATCH = 14
"""The side of a patch in pixels, in both image encoders."""

EVA_MLP_RATIO = 4.3637
"""The hidden width of EVA's MLPs over their input width, from LAVIS' `create_eva_vit_g`."""


@dataclass(frozen=True, slots=True)
class Vit:
    """The settings of an image encoder, as in LAVIS; `size` is the image's side in pixels."""

    kind: Literal["clip", "eva"]
    size: int
    width: int
    blocks: int
    heads: int

    @property
    def tokens_shape(self) -> tuple[int, int]:
        """(P, W): the number of tokens, one per patch and one for the image, and their width."""
        return (self.size // PATCH) ** 2 + 1, self.width


@dataclass(frozen=True, slots=True)
class Architecture:
    """A published model; without a `vit_file`, its checkpoint holds the image encoder too."""

    name: str
    vit: Vit
    checkpoint: str
    vit_file: str | None


# LAVIS drops the last of CLIP's 22 layers: the Q-Former reads the last but one.
CLIP_L = Vit("clip", size=224, width=1024, blocks=21, heads=16)
EVA_G = Vit("eva", size=224, width=1408, blocks=39, heads=16)
EVA_G_364 = Vit("eva", size=364, width=1408, blocks=39, heads=16)

ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("blip2-vitL", CLIP_L, "blip2_pretrained_vitL.pth", "clip_vit_L.pth"),
        Architecture("blip2-vitg", EVA_G, "blip2_pretrained.pth", "eva_vit_g.pth"),
        # Fine-tuned on COCO together with its image encoder, which is in the checkpoint.
        Architecture("blip2-coco", EVA_G_364, "blip2_finetune_coco.pth", None),
    )
}
"""LAVIS' types `pretrain_vitL`, `pretrain` and `coco`, by our names."""


LAVIS_STORE = "https://storage.googleapis.com/sfr-vision-language-research/LAVIS/models/BLIP2"
BERT_STORE = "https://huggingface.co/bert-base-uncased/resolve/main"

BERT = "bert-base-uncased"
BERT_CONFIG, BERT_VOCABULARY = f"{BERT}/config.json", f"{BERT}/vocab.txt"

SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

DAMAGES = (
    *(pickle.UnpicklingError, struct.error, RuntimeError, OSError, EOFError),
    *(ValueError, LookupError, TypeError, AttributeError),
)
"""What `torch.load` raises for a truncated file, or one that is not PyTorch's."""


def default_folder() -> Path:
    """`$HSFIQ_WEIGHTS`, else `~/.cache/hsfiq/weights`."""
    named = os.environ.get("HSFIQ_WEIGHTS")
    return Path(named) if named else Path.home() / ".cache" / "hsfiq" / "weights"


def urls(architecture: Architecture) -> dict[str, str]:
    """The URL of each file of a model, by its path in the folder of weights."""
    published = filter(None, (architecture.checkpoint, architecture.vit_file))
    return {
        **{file: f"{LAVIS_STORE}/{file}" for file in published},
        **{file: f"{BERT_STORE}/{Path(file).name}" for file in (BERT_CONFIG, BERT_VOCABULARY)},
    }


def require_files(architecture: Architecture, folder: Path) -> None:
    """Check that every file of a model exists; UnreadableInput names missing ones with URLs."""
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
    """Read a vocabulary, one word per line; UnreadableInput if it lacks BERT's special words."""
    try:
        # Not `splitlines`: words may hold other line separators.
        words = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableInput(str(file), "is not UTF-8 text", "download it again") from error
    missing = [word for word in SPECIAL_WORDS if word not in words]
    if missing:
        raise UnreadableInput(str(file), f"lacks {', '.join(missing)}", "download it again")
    return words


def read_tensors(file: Path, key: str | None = None) -> dict[str, Tensor]:
    """Read a PyTorch file of tensors by name, on the CPU; UnreadableInput if it is damaged.

    `key` is the key of the tensors in the file's dictionary; None if the file holds them alone.
    """
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except DAMAGES as error:
        raise UnreadableInput(
            str(file),
            f"is not a complete PyTorch file ({type(error).__name__})",
            "download it again",
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
    """Copy tensors into a module, unless one is missing or has another shape (UnreadableInput).

    Additional tensors are no error: the image encoders' files hold blocks that BLIP-2 does not use.
    Names with a prefix in `optional` may be missing and then stay unchanged.
    """
    wanted: dict[str, Tensor] = module.state_dict()
    missing = [n for n in wanted if n not in tensors and not n.startswith(optional)]
    if missing:
        unknown = [name for name in tensors if name not in wanted]
        has = f" and has {first_two(unknown)}" if unknown else ""
        raise UnreadableInput(
            str(file), f"lacks {first_two(missing)}{has}", "use the file of this model"
        )
    usable = {name: tensors[name] for name in wanted if name in tensors}
    require_shapes(usable, wanted, file)
    module.load_state_dict(usable, strict=False)


def require_shapes(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], file: Path) -> None:
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{list(tensor.shape)}, not {list(wanted[name].shape)}"
            raise UnreadableInput(str(file), f"{name} is {shapes}", "use the file of this model")


def frozen_id(settings: object, weights: Mapping[str, Tensor]) -> str:
    """The sha256 of an image encoder's settings, as `repr` writes them, and of its weights."""
    digest = sha256(repr(settings).encode())
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def first_two(names: list[str]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(names[:2]) + more
