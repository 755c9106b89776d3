"""What of a release is uploaded, and whether it may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.checking.verify import verify
from hsfiq.releases.manifest import MANIFEST, read_manifest
from hsfiq.text import count_text

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@dataclass(frozen=True, slots=True)
class Upload:
    """What is uploaded: the files of a release by name, with their sizes in bytes."""

    folder: Path
    repo: str
    licence: str
    version: str
    files: Mapping[str, int]

    @property
    def n_bytes(self) -> int:
        return sum(self.files.values())


def plan_upload(folder: Path, repo: str) -> Upload:
    """Verify a release and list its files.

    Raises:
        UnreadableInput: the folder is no release, has no licence, or the repository's name is not
            like owner/name.
        NothingToDo: the release is not what it says.
    """
    if _REPO.fullmatch(repo) is None:
        raise UnreadableInput("--repo", f"{repo!r} is not like owner/name")
    findings = verify(folder)
    if findings.first:
        raise NothingToDo(
            f"{count_text(findings.n, 'finding')}, the first: {findings.first[0]}",
            where=str(folder),
            remedy=f"see `hsfiq release verify {folder}`",
        )
    manifest = read_manifest(folder) or {}
    publication = manifest.get("publication")
    licence = publication.get("licence") if isinstance(publication, Mapping) else None
    if not licence:
        raise UnreadableInput(
            str(folder / MANIFEST),
            "names no licence, without which nobody may use the release",
            "name it under [release] in study.toml, and export again",
        )
    names = [*manifest.get("files", {}), MANIFEST]
    files = {name: (folder / name).stat().st_size for name in sorted(names)}
    return Upload(folder, repo, str(licence), str(manifest["version"]), files)
