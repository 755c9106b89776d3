"""Uploading a release to a dataset repository of the Hugging Face hub, through its own client."""

from __future__ import annotations

import os

from huggingface_hub import CommitOperationAdd, HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from hsfiq.errors import UnreadableInput
from hsfiq.releases.publishing.upload import Upload

ENDPOINT = "HF_ENDPOINT"
"""The client's own variable, for another server than the hub."""
HttpError: type[Exception] = HfHubHTTPError.__bases__[0]
"""The error of the HTTP library, httpx or httpx2, that this version of the client uses."""
REFUSALS = (HfHubHTTPError, HFValidationError, ValueError, OSError, RuntimeError)


def push(upload: Upload, *, private: bool = False) -> str:
    """Make the repository unless it is there, upload all files as one commit, and return its URL.

    Other files of the repository stay.

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
