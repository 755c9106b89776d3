"""Checkpoints: a JSON file that says what the scorer is, and the safetensors file that it names.

The tensors are written first, under the name of their content; the JSON file is what makes them a
checkpoint, and replacing it replaces the checkpoint. So whenever a process is killed, the folder
holds the old one or the new one, whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Container, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hsfiq.atomic_files import put_in_place, write_whole
from hsfiq.errors import UnreadableInput

FORMAT = 1
BEST, LAST = "best", "last"
ANSWER_MODEL = "answer_model.json"
"""Beside a retrained scorer's checkpoint: the answer models fitted before and after."""
ENTRY = {"file", "sha256", "bytes"}
"""What the JSON file says of a file of tensors."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint's JSON file says; the tensors are read when they are asked for."""

    path: Path
    """Of the JSON file."""
    about: dict[str, Any]

    @property
    def sha256(self) -> str:
        """Of the scorer's tensors: the checkpoint's identity."""
        return str(self.about["files"]["scorer"]["sha256"])

    def tensors(self, part: str) -> dict[str, Tensor]:
        """Read the tensors of a part: `scorer`, or `state` that resuming needs besides.

        Raises:
            UnreadableInput: the file is missing, truncated or not the one that was written.
        """
        entry = self.about["files"].get(part)
        if entry is None:
            raise UnreadableInput(
                str(self.path), f"holds no {part}", "it was made to be scored with: give last.json"
            )
        path = self.path.parent / entry["file"]
        mend = "copy the checkpoint again, all its files"
        if not path.is_file():
            raise UnreadableInput(str(path), f"is missing, and {self.path.name} needs it", mend)
        if path.stat().st_size != entry["bytes"] or sha256_of(path) != entry["sha256"]:
            raise UnreadableInput(
                str(path), f"is not the file that {self.path.name} names: cut or changed", mend
            )
        try:
            return load_file(path)
        except SafetensorError as error:
            raise UnreadableInput(str(path), f"holds no tensors ({error})", mend) from error


def save(
    folder: Path, name: str, about: Mapping[str, Any], parts: Mapping[str, Mapping[str, Tensor]]
) -> Checkpoint:
    """Write a checkpoint, whole or not at all, in the place of the one of this name.

    Args:
        folder: is made where it is missing.
        name: `last` or `best`.
        about: what the JSON file says.
        parts: the tensors, by part.

    Raises:
        UnreadableInput: the folder cannot be written to, or its disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clear(folder, f".{name}[-.]*.draft", kept=set())  # of a process that was killed
    files = {part: save_tensors(folder, f"{name}-{part}", it) for part, it in parts.items()}
    whole = {"format": FORMAT, **about, "files": files}
    path = folder / f"{name}.json"
    write_whole(path, to_json(whole))
    clear(folder, f"{name}-*.safetensors", kept={entry["file"] for entry in files.values()})
    return Checkpoint(path, whole)


def clear(folder: Path, pattern: str, kept: Container[str]) -> None:
    """Remove the files and folders of this pattern but those to be kept."""
    for path in folder.glob(pattern):
        if path.name in kept:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def save_tensors(folder: Path, stem: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write tensors to a file named for its content; returns its entry in the JSON file.

    Raises:
        UnreadableInput: the file cannot be written.
    """
    # In a folder, because safetensors makes a temporary file of its own beside the one it is to
    # write, which a killed process leaves there.
    drafts = folder / f".{stem}-{os.getpid()}.draft"
    draft = drafts / "tensors"
    try:
        drafts.mkdir(exist_ok=True)
        draft.touch()
        mode = draft.stat().st_mode
        save_file({key: it.detach().cpu().contiguous() for key, it in tensors.items()}, draft)
        draft.chmod(mode)  # safetensors lets nobody else read it
        digest = sha256_of(draft)
        path = folder / f"{stem}-{digest[:12]}.safetensors"
        put_in_place(draft, path)
    except (OSError, SafetensorError) as error:
        raise UnreadableInput(
            str(folder), f"a checkpoint cannot be written ({error})", "make room, then go on"
        ) from error
    finally:
        shutil.rmtree(drafts, ignore_errors=True)
    return {"file": path.name, "sha256": digest, "bytes": path.stat().st_size}


def to_json(value: Mapping[str, Any]) -> bytes:
    """A JSON file's content, for people to read too."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def read(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: its JSON file, or the folder of a run: then the best, or the last where none is.

    Raises:
        UnreadableInput: there is none, or the JSON file is none.
    """
    if path.is_dir():
        found = next(
            (it for it in (path / f"{BEST}.json", path / f"{LAST}.json") if it.is_file()), None
        )
        if found is None:
            raise UnreadableInput(str(path), "holds no best.json or last.json: no checkpoint")
        path = found
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such checkpoint", "name a run's folder")
    mend = "name a run's folder, or the best.json or last.json in it"
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableInput(str(path), "is no checkpoint's JSON file", mend) from error
    if not is_checkpoint(about):
        raise UnreadableInput(str(path), f"is no checkpoint of format {FORMAT}", mend)
    return Checkpoint(path, about)


def is_checkpoint(about: Any) -> bool:
    """Whether a JSON value is what `save` writes."""
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        return False
    files = about.get("files")
    return (
        isinstance(files, dict)
        and "scorer" in files
        and all(isinstance(it, dict) and it.keys() == ENTRY for it in files.values())
    )
