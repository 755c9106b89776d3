"""What a scorer has learned from: whether a metric is held against answers that it was made of.

The JSON file beside a scores file, as `hsfiq score` writes it, names under "trained_on" the
releases that the scorer was retrained on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hsfiq.analysis.data.parts import TEST, has_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hsfiq.analysis.data.release import Release


def learned(release: Release, names: Sequence[str]) -> tuple[str, ...]:
    """Say which metrics' figures are too good, or may be.

    Args:
        release: a release, or a part of one.
        names: the metrics'.

    Returns:
        For each metric whose scorer was retrained on answers that are, or may be, among these: a
        sentence if on this very release, and another if on other content of it.
    """
    return tuple(said for name in names if name in release.scores for said in _said(release, name))


def trained_on(scores: Path, name: str) -> Sequence[Mapping[str, object]]:
    """Read which releases a metric's scorer was retrained on.

    Args:
        scores: the metric's scores file.
        name: the metric's.

    Returns:
        Each release's name, version and content_sha256, oldest first; nothing where the scorer was
        retrained on none, or no file beside the scores says where they come from.
    """
    try:
        about = json.loads(scores.with_name(f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ()
    found = about.get("trained_on") if isinstance(about, dict) else None
    return [it for it in found if isinstance(it, dict)] if isinstance(found, list) else ()


def _said(release: Release, name: str) -> Iterator[str]:
    sources = trained_on(release.scores[name], name)
    others = [it for it in sources if not _is_same(it, release)]
    if len(others) < len(sources):
        yield from _of_this_release(release, name)
    # Another release, or other content of this one, may ask the same triplets or people.
    names = dict.fromkeys(f"{it.get('name')} {it.get('version')}" for it in others)
    if names:
        yield (
            f'metric "{name}" comes from a scorer that was retrained on {", ".join(names)}, '
            "which is not what is analysed; where it asked about the same triplets or asked the "
            "same people, these figures are too good"
        )


def _is_same(source: Mapping[str, object], release: Release) -> bool:
    digest = source.get("content_sha256")
    return digest is not None and digest == release.content_sha256


def _of_this_release(release: Release, name: str) -> Iterator[str]:
    said = f'metric "{name}" comes from a scorer that was retrained on answers of this release'
    if not has_split(release):
        yield (
            f"{said}, and no question of it was held out: its figures are too good; export the "
            "release with --split and retrain on that"
        )
    elif release.part is None:
        yield f"{said}; its figures over all questions are too good: use --part {TEST}"
    elif release.part.name != TEST:
        yield f"{said}; its figures over this part are too good: use --part {TEST}"
