"""Checkpoints of a scorer trained with `blip2-vitg`, as ones of `blip2-hf`, and back.

Both train the same parameters under two names, on the same frozen image encoder; so a scorer
trained in LAVIS' environment is used in any other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hsfiq.errors import UnreadableInput
from hsfiq.model.checkpoints import files as checkpoints
from hsfiq.model.checkpoints.files import ANSWER_MODEL, Checkpoint
from hsfiq.model.encoders.hf.conversion import hf_name, lavis_names
from hsfiq.model.encoders.hf.encoder import NAME as HF
from hsfiq.model.encoders.hf.files import require_new, whole_folder

LAVIS = "blip2-vitg"

_LAVIS_PREFIX, _HF_PREFIX = "encoder.lavis.", "encoder.hf."


def convert(source: Path, out: Path) -> Checkpoint:
    """Write a checkpoint for the other of the two encoders: to score with, or to start from.

    The law fitted to answers, where one lies beside it, goes along as it is: it is about scores,
    and these are the same.

    Args:
        source: a checkpoint's JSON file, or a run's folder.
        out: gets `best.json` and its tensors; is made, whole or not at all.

    Raises:
        UnreadableInput: no checkpoint, one of another encoder, or with unknown tensors; `out` is
            there already, or cannot be written.
    """
    checkpoint = checkpoints.read(source)
    said, recipe = (checkpoint.about.get(key) for key in ("encoder", "recipe"))
    if not isinstance(said, dict) or not isinstance(recipe, dict):
        raise UnreadableInput(str(checkpoint.path), "does not say what it was trained with")
    was = said.get("name")
    if was not in (LAVIS, HF):
        raise UnreadableInput(
            str(checkpoint.path), f"is of {was}: only {LAVIS} and {HF} can be the other"
        )
    require_new(out)
    to, rename = (HF, to_hf_name) if was == LAVIS else (LAVIS, to_lavis_name)
    tensors = {
        renamed(name, rename, checkpoint.path): it
        for name, it in checkpoint.tensors("scorer").items()
    }
    about = {key: it for key, it in checkpoint.about.items() if key not in ("format", "files")}
    about |= {
        "encoder": {**said, "name": to},
        "recipe": {**recipe, "encoder": to},
        "converted_from": {"encoder": was, "sha256": checkpoint.sha256},
    }
    law = law_beside(checkpoint)
    with whole_folder(out) as draft:
        if law is not None:
            (draft / ANSWER_MODEL).write_bytes(law)
        saved = checkpoints.save(draft, checkpoints.BEST, about, {"scorer": tensors})
    return Checkpoint(out / saved.path.name, saved.about)


def law_beside(checkpoint: Checkpoint) -> bytes | None:
    """The file with the law fitted to answers; None where the scorer was not retrained on any.

    Raises:
        UnreadableInput: it is there and cannot be read.
    """
    path = checkpoint.path.with_name(ANSWER_MODEL)
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise UnreadableInput(str(path), f"cannot be read ({error.strerror})") from error


def to_hf_name(name: str) -> str | None:
    """The name in a scorer with `blip2-hf` of what has this one with LAVIS' model."""
    found = hf_name(name.removeprefix(_LAVIS_PREFIX)) if name.startswith(_LAVIS_PREFIX) else None
    return f"{_HF_PREFIX}{found}" if found else None


def to_lavis_name(name: str) -> str | None:
    """The name in a scorer with LAVIS' model of what has this one with `blip2-hf`."""
    found = lavis_names(name.removeprefix(_HF_PREFIX)) if name.startswith(_HF_PREFIX) else ()
    return f"{_LAVIS_PREFIX}{found[0]}" if len(found) == 1 else None


def renamed(name: str, rename: Callable[[str], str | None], path: Path) -> str:
    """The other name of a checkpoint's tensor.

    Raises:
        UnreadableInput: it has none.
    """
    if name == "encoder.temperature":
        return name
    found = rename(name)
    if found is None:
        raise UnreadableInput(str(path), f"has {name}, unknown to the other encoder")
    return found
