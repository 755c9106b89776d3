"""The manifest, which makes a folder a release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.releases.filters import NamedFilter
from hsfiq.study.publishing.publication import Publication

MANIFEST = "manifest.json"
MADE_OF_THE_MANIFEST = ("README.md", "croissant.json")
SPLIT_OPTIONS = ("by", "seed", "test_share")


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


def has_packed_images(folder: Path) -> bool:
    return bool((read_manifest(folder) or {}).get("images"))


def content_digest(manifest: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    """Digest the options of an export and its text files, whose digests are given by name.

    Parquet files differ between versions of pyarrow, so of them only the packed images count, by
    the digest that the manifest has of them.

    Raises:
        KeyError, TypeError, ValueError: the manifest lacks an option or has an invalid one.
    """
    texts = {
        name: digest
        for name, digest in digests.items()
        if not name.endswith(".parquet") and name not in (*MADE_OF_THE_MANIFEST, MANIFEST)
    }
    content = json.dumps([manifest["name"], *options_of(manifest), texts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def options_of(manifest: Mapping[str, Any]) -> Iterator[Any]:
    """The filters, and what else was asked for or stated."""
    yield [
        str(NamedFilter(each["name"], *next(iter(each["parameters"].items()), ())))
        for each in manifest["filters"]
    ]
    if split := manifest.get("split"):
        yield {name: split[name] for name in SPLIT_OPTIONS}
    extras: dict[str, Any] = {"layouts": sorted(manifest.get("layouts", ()))}
    extras |= {name: manifest.get(name) for name in ("images", "without")}
    if any(extras.values()):
        yield {name: value for name, value in extras.items() if value}
    stated = {name: value for name, value in manifest["publication"].items() if value is not None}
    if stated:
        yield asdict(Publication()) | stated
