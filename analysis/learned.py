"""What a scorer has learned from: whether a metric is held against answers that it was made of.

The JSON file beside a scores file, as `hsfiq score` writes it, names under "trained_on" the
release that the scorer was retrained on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from analysis.parts import TEST, has_split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from analysis.release import Release


def learned(release: Release, names: Sequence[str]) -> tuple[str, ...]:
    """Say which metrics' figures are too good, or may be.

    Args:
        release: a release, or a part of one.
        names: the metrics'.

    Returns:
        A sentence for each metric whose scorer was retrained on answers that are, or may be, among
        these.
    """
    said = (_said(release, name) for name in names if name in release.scores)
    return tuple(each for each in said if each is not None)


def trained_on(scores: Path, name: str) -> Mapping[str, object]:
    """Read which release a metric's scorer was retrained on.

    Args:
        scores: the metric's scores file.
        name: the metric's.

    Returns:
        The release's name, version and content_sha256; nothing where the scorer was retrained on
        none, or no file beside the scores says where they come from.
    """
    try:
        about = json.loads(scores.with_name(f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(about, dict) or about.get("metric") != name:
        return {}
    found = about.get("trained_on")
    return found if isinstance(found, dict) else {}


def _said(release: Release, name: str) -> str | None:
    source = trained_on(release.scores[name], name)
    digest = source.get("content_sha256")
    if digest is not None and digest == release.content_sha256:
        return _of_this_release(release, name)
    if source.get("name") == release.name:
        return (
            f'metric "{name}" comes from a scorer that was retrained on {release.name} '
            f"{source.get('version')}, which has other content than this release; where the same "
            "questions were learned from, its figures are too good"
        )
    return None


def _of_this_release(release: Release, name: str) -> str | None:
    said = f'metric "{name}" comes from a scorer that was retrained on answers of this release'
    if not has_split(release):
        return (
            f"{said}, and no question of it was held out: its figures are too good; export the "
            "release with --split and retrain on that"
        )
    if release.part is None:
        return f"{said}; its figures over all questions are too good: use --part {TEST}"
    if release.part.name != TEST:
        return f"{said}; its figures over this part are too good: use --part {TEST}"
    return None
