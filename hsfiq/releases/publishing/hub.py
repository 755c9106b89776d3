"""Uploading a release to a dataset repository of the Hugging Face hub, through its own client."""

from __future__ import annotations

import os

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from hsfiq.errors import UnreadableInput
from hsfiq.releases.publishing.upload import Upload

ENDPOINT = "HF_ENDPOINT"
"""The client's own variable, for another server than the hub."""
REFUSALS = (HfHubHTTPError, HFValidationError, ValueError, OSError, RuntimeError)


def push(upload: Upload, *, private: bool = False) -> str:
    """Make the repository unless it is there, upload all files as one commit, and return its URL.

    Other files of the repository stay.

    Raises:
        UnreadableInput: nobody is logged in, or the hub refuses.
    """
    if get_token() is None:
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
    except REFUSALS as error:
        what = f"the upload was refused ({' '.join(str(error).split())})"
        raise UnreadableInput(f"--repo {upload.repo}", what, "nothing was published") from error
    return str(commit.commit_url)
