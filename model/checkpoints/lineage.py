"""The releases that a scorer was retrained on, over all its retrainings."""

from __future__ import annotations

from typing import Any

from hsfiq.model.checkpoints.checkpoint import Checkpoint

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
