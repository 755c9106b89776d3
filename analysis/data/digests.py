"""Whether a release's tables are still those that its manifest lists."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hsfiq.analysis.data.release import EXPORT_AGAIN, read_manifest
from hsfiq.analysis.errors import AnalysisError


class AlteredRelease(AnalysisError):
    """A table differs from the one that was exported; the command line exits with 1."""

    exit_code = 1


def verify_tables(folder: Path) -> None:
    """Raise `AlteredRelease` unless each Parquet file has the digest that the manifest lists.

    A manifest without digests, such as another tool's, is accepted.
    """
    listed = read_manifest(folder / "manifest.json").get("files")
    for name, facts in listed.items() if isinstance(listed, dict) else ():
        path, digest = folder / name, facts.get("sha256") if isinstance(facts, dict) else None
        if path.suffix != ".parquet" or digest is None:
            continue
        if not path.is_file():
            raise AlteredRelease(path, "is missing, but the manifest lists it", EXPORT_AGAIN)
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise AlteredRelease(
                    path,
                    "differs from the file that the manifest lists",
                    f"{EXPORT_AGAIN}, or add --no-verify",
                )
