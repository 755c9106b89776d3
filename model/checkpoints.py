"""Checkpoints: writing, reading and checking them, and the model card beside each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hsfiq.atomic_files import indented_json, put_in_place, sha256_of, write_whole
from hsfiq.errors import UnreadableInput

# Checkpoints: a JSON file that describes the scorer, and the safetensors files that it names.
#
# The tensors are written first, under a name with their hash; then the JSON file is replaced, and
# with it the checkpoint. So a process killed at any time leaves the complete old or new checkpoint.

FORMAT = 1
BEST, LAST = "best", "last"
ANSWER_MODEL = "answer_model.json"
"""A file beside a retrained scorer's checkpoint: the answer models fitted before and after."""
ENTRY = {"file", "sha256", "bytes"}
"""The keys that the JSON file has for each file of tensors."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The path and the content of a checkpoint's JSON file; its tensors are read on demand."""

    path: Path
    about: dict[str, Any]

    @property
    def sha256(self) -> str:
        """The hash of the scorer's tensors, which identifies the checkpoint."""
        return str(self.about["files"]["scorer"]["sha256"])

    def tensors(self, part: str) -> dict[str, Tensor]:
        """Read the tensors of a part: `scorer`, or `state`, which resuming needs."""
        entry = self.about["files"].get(part)
        if entry is None:
            raise UnreadableInput(
                str(self.path), f"holds no {part}", "it only supports scoring: use last.json"
            )
        path = self.path.parent / entry["file"]
        remedy = "copy the checkpoint again, with all its files"
        if not path.is_file():
            raise UnreadableInput(str(path), f"is missing, and {self.path.name} needs it", remedy)
        if path.stat().st_size != entry["bytes"] or sha256_of(path) != entry["sha256"]:
            raise UnreadableInput(
                str(path),
                f"is not the file that {self.path.name} names: truncated or changed",
                remedy,
            )
        try:
            return load_file(path)
        except SafetensorError as error:
            raise UnreadableInput(str(path), f"holds no tensors ({error})", remedy) from error


def save(
    folder: Path, name: str, about: Mapping[str, Any], parts: Mapping[str, Mapping[str, Tensor]]
) -> Checkpoint:
    """Write a checkpoint, completely or not at all, replacing the one of this name.

    `about` is the content of the JSON file besides `format` and `files`; `parts` are the tensors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    clear(folder, f".{name}[-.]*.draft", kept=set())  # of a killed process
    files = {
        part: save_tensors(folder, f"{name}-{part}", tensors) for part, tensors in parts.items()
    }
    content = {"format": FORMAT, **about, "files": files}
    path = folder / f"{name}.json"
    write_whole(path, indented_json(content))
    clear(folder, f"{name}-*.safetensors", kept={entry["file"] for entry in files.values()})
    return Checkpoint(path, content)


def clear(folder: Path, pattern: str, kept: Container[str]) -> None:
    """Remove the files and folders of this pattern, except those to keep."""
    for path in folder.glob(pattern):
        if path.name in kept:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def save_tensors(folder: Path, stem: str, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Write tensors to a file with its hash in its name; returns its entry in the JSON file."""
    # A folder, because safetensors writes a temporary file beside the draft.
    drafts = folder / f".{stem}-{os.getpid()}.draft"
    draft = drafts / "tensors"
    try:
        drafts.mkdir(exist_ok=True)
        write_safetensors(
            {key: value.detach().cpu().contiguous() for key, value in tensors.items()}, draft
        )
        digest = sha256_of(draft)
        path = folder / f"{stem}-{digest[:12]}.safetensors"
        put_in_place(draft, path)
    except (OSError, SafetensorError) as error:
        raise UnreadableInput(
            str(folder),
            f"a checkpoint cannot be written ({error})",
            "free disk space and run the command again",
        ) from error
    finally:
        shutil.rmtree(drafts, ignore_errors=True)
    return {"file": path.name, "sha256": digest, "bytes": path.stat().st_size}


def write_safetensors(
    tensors: dict[str, Tensor], file: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors directly to a file, without a copy of them in memory."""
    file.touch()
    mode = file.stat().st_mode
    save_file(tensors, file, metadata)
    file.chmod(mode)  # safetensors makes it readable by its owner only


def read(path: Path) -> Checkpoint:
    """Read a checkpoint's JSON file, or from a run's folder that of the best or else the last."""
    if path.is_dir():
        candidates = (path / f"{BEST}.json", path / f"{LAST}.json")
        existing = [candidate for candidate in candidates if candidate.is_file()]
        if not existing:
            raise UnreadableInput(str(path), "has no checkpoint (best.json or last.json)")
        path = existing[0]
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such checkpoint", "name a run's folder")
    remedy = "name a run's folder, or the best.json or last.json in it"
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnreadableInput(str(path), "is not the JSON file of a checkpoint", remedy) from error
    if not is_checkpoint(about):
        raise UnreadableInput(str(path), f"is not a checkpoint of format {FORMAT}", remedy)
    return Checkpoint(path, about)


def is_checkpoint(about: Any) -> bool:
    """Whether a JSON value has the form that `save` writes."""
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        return False
    files = about.get("files")
    return (
        isinstance(files, dict)
        and "scorer" in files
        and all(isinstance(entry, dict) and entry.keys() == ENTRY for entry in files.values())
    )


# The releases that a scorer was retrained on, over all its retrainings.

EARLIER_RELEASES = "earlier_releases"
"""The key for the releases that the initial scorer had been retrained on."""


def trained_on(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """{"name", "version", "content_sha256"} of each such release, each once, oldest first."""
    earlier = checkpoint.about.get(EARLIER_RELEASES)
    sources = [*(earlier if isinstance(earlier, list) else ()), checkpoint.about.get("release")]
    releases: list[dict[str, Any]] = []
    for source in sources:
        if isinstance(source, dict):
            release = {key: source.get(key) for key in ("name", "version", "content_sha256")}
            if release not in releases:
                releases.append(release)
    return releases


# README.md beside a checkpoint: its model card, with the front matter that model hubs read.

CARD = "README.md"


def write_card(
    folder: Path,
    title: str,
    introduction: Iterable[str],
    sections: Mapping[str, Iterable[str]],
    *,
    tags: Iterable[str],
) -> None:
    """Write the card; the introduction is paragraphs, a section's text its lines by its heading."""
    lines = [
        "---",
        "library_name: hsfiq",
        f"tags: [{', '.join(('composed-image-retrieval', *tags))}]",
        "---",
        "",
        f"# {title}",
        "",
        *(line for paragraph in introduction for line in (paragraph, "")),
    ]
    for heading, section in sections.items():
        lines += [f"## {heading}", "", *section, ""]
    write_whole(folder / CARD, "\n".join(lines).encode())
