"""The manifest, which makes a folder a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hsfiq.answer_rules import HIGHEST_SCORE

MANIFEST = "manifest.json"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of a folder; None if the folder is not a release of ours.

    Other programs also write files named manifest.json.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    texts = ("name", "version", "kind", "content_sha256")
    if isinstance(manifest, dict) and all(isinstance(manifest.get(key), str) for key in texts):
        return manifest
    return None


def points_of(folder: Path) -> int:
    """The points of the scale for sets; releases older than other scales have the standard one."""
    scale = (read_manifest(folder) or {}).get("scale")
    points = scale.get("points") if isinstance(scale, dict) else None
    return points if isinstance(points, int) else HIGHEST_SCORE
