"""What a scorer has learned from besides triplets: the releases of all its retrainings."""

from __future__ import annotations

from typing import Any

from hsfiq.model.checkpoints.files import Checkpoint

EARLIER_RELEASES = "earlier_releases"
"""Where a checkpoint tells of those that the scorer it started from was retrained on."""


def trained_on(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """The releases that a scorer was retrained on, each once, oldest first.

    Returns:
        Of each {"name", "version", "content_sha256"}; nothing for a scorer of triplets alone.
    """
    earlier = checkpoint.about.get(EARLIER_RELEASES)
    sources = [*(earlier if isinstance(earlier, list) else ()), checkpoint.about.get("release")]
    keys = ("name", "version", "content_sha256")
    found = [{key: it.get(key) for key in keys} for it in sources if isinstance(it, dict)]
    return [it for i, it in enumerate(found) if it not in found[:i]]
