"""Uploading a release to a dataset repository of the Hugging Face hub, through its own client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from hsfiq.errors import NothingToDo, UnreadableInput
from hsfiq.releases.folder import MANIFEST, read_manifest
from hsfiq.releases.verify import verify
from hsfiq.text import count_text

# What of a release is uploaded, and whether it may be.

_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


@dataclass(frozen=True, slots=True)
class Upload:
    """The files of a release to upload by name, with their sizes in bytes."""

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
        UnreadableInput: the folder is not a release, has no license, or the repository's name is
        not owner/name.
        NothingToDo: the release fails verification.
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
            "has no license: others may not reuse the release",
            "set it under [release] in study.toml, and export again",
        )
    names = [*manifest.get("files", {}), MANIFEST]
    files = {name: (folder / name).stat().st_size for name in sorted(names)}
    return Upload(folder, repo, str(licence), str(manifest["version"]), files)


ENDPOINT = "HF_ENDPOINT"
"""The client's own variable, for another server than the hub."""
HttpError: type[Exception] = HfHubHTTPError.__bases__[0]
"""The error of the HTTP library, httpx or httpx2, that this version of the client uses."""
REFUSALS = (HfHubHTTPError, HFValidationError, ValueError, OSError, RuntimeError)


def push(upload: Upload, *, private: bool = False) -> str:
    """Create the repository if needed, upload all files as one commit, and return the URL.

    Other files of the repository are kept.

    Raises:
        UnreadableInput: nobody is logged in, or the hub refuses.
    """
    token = get_token()
    if token is None:
        raise UnreadableInput(
            "the hub", "nobody is logged in", "run `hf auth login`, or set HF_TOKEN"
        )
    api = HfApi(endpoint=os.environ.get(ENDPOINT))
    operations = [
        CommitOperationAdd(path_in_repo=name, path_or_fileobj=upload.folder / name)
        for name in upload.files
    ]
    try:
        api.create_repo(upload.repo, repo_type="dataset", private=private, exist_ok=True)
        commit = api.create_commit(
            upload.repo,
            operations,
            commit_message=f"Release {upload.version}",
            repo_type="dataset",
        )
        return str(commit.commit_url)
    except REFUSALS as error:
        # The hub, or a proxy on the way, may repeat what it was sent.
        said = " ".join(str(error).replace(token, "***").split())
        failed = UnreadableInput(
            f"--repo {upload.repo}", f"the upload was refused ({said})", "nothing was published"
        )
    except HttpError as error:  # no connection, or one that ended
        failed = UnreadableInput(
            f"--repo {upload.repo}",
            f"the hub cannot be reached ({type(error).__name__})",
            "check the network, and HF_ENDPOINT if it is set; nothing was published",
        )
    # Not from the client's error: its traceback has the request, and so the token.
    raise failed
