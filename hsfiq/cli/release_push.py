"""`hsfiq release push`: a release to the Hugging Face hub; nothing is sent without `--yes`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hsfiq.cli.common import JsonOption, print_result, requires

if TYPE_CHECKING:
    from hsfiq.releases.push import Upload


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq release push releases/a-hp-1.0.0 --repo our-group/a --yes")(
        push
    )


def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    repo: Annotated[
        str, typer.Option(metavar="OWNER/NAME", help="The dataset repository; made if needed.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Upload; without it, only what would be uploaded.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Make a repository that only its owners see.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Upload a release to the Hugging Face hub, after it was verified; it needs a licence.

    Log in first, with `hf auth login` or the variable HF_TOKEN.
    """
    from hsfiq.releases.push import plan_upload

    upload = plan_upload(folder, repo)
    url = None
    if yes:
        with requires("hub"):
            from hsfiq.releases.push import push as push_upload
        url = push_upload(upload, private=private)
    result = asdict(upload) | {
        "folder": str(folder),
        "bytes": upload.n_bytes,
        "private": private,
        "uploaded": yes,
        "commit": url,
    }
    print_result(result, as_text(upload, url, private=private), as_json=as_json)


def as_text(upload: Upload, url: str | None, *, private: bool) -> str:
    lines = [
        f"repository: {upload.repo}{' (private)' if private else ''}",
        f"licence: {upload.licence}",
        f"version: {upload.version}",
        *(f"  {n_bytes:>13,}  {name}" for name, n_bytes in upload.files.items()),
        f"  {upload.n_bytes:>13,}  bytes in {len(upload.files)} files",
    ]
    last = f"uploaded: {url}" if url else "nothing was uploaded; add --yes to do so"
    return "\n".join([*lines, last])
