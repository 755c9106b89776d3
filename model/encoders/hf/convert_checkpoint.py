"""Converting a scorer's checkpoint from `blip2-vitg` to `blip2-hf`, and back.

Both train the same parameters under two names, on the same frozen image encoder. So a scorer
trained in LAVIS' environment can be used in any other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import checkpoint as checkpoints
from hsfiq.model.checkpoints.checkpoint import ANSWER_MODEL, Checkpoint
from hsfiq.model.encoders.hf.convert_weights import atomic_folder, require_new
from hsfiq.model.encoders.hf.encoder import NAME as HF
from hsfiq.model.encoders.hf.tensor_names import hf_name, lavis_names

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
        raise UnreadableInput(str(checkpoint.path), "does not record what it was trained with")
    old = encoder.get("name")
    if old not in (LAVIS, HF):
        raise UnreadableInput(
            str(checkpoint.path), f"is of {old}: only {LAVIS} and {HF} can be converted"
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
    hf = hf_name(name.removeprefix(_LAVIS_PREFIX)) if name.startswith(_LAVIS_PREFIX) else None
    return f"{_HF_PREFIX}{hf}" if hf else None


def to_lavis_name(name: str) -> str | None:
    names = lavis_names(name.removeprefix(_HF_PREFIX)) if name.startswith(_HF_PREFIX) else ()
    return f"{_LAVIS_PREFIX}{names[0]}" if len(names) == 1 else None


def renamed(name: str, rename: Callable[[str], str | None], path: Path) -> str:
    """The new name of a checkpoint's tensor; UnreadableInput if the other encoder has none."""
    new_name = name if name == "encoder.temperature" else rename(name)
    if new_name is None:
        raise UnreadableInput(str(path), f"has {name}, unknown to the other encoder")
    return new_name
