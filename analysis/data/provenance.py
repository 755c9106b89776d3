"""Whether a metric comes from a scorer that was trained on the answers it is compared with.

The JSON file beside a scores file, as `hsfiq score` writes it, lists under "trained_on" the
releases that the scorer was retrained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hsfiq.analysis.data.parts import TEST, has_split
from hsfiq.analysis.data.release import Release


def training_notes(release: Release, metrics: Sequence[str]) -> tuple[str, ...]:
    """Warn about metrics whose scorer was retrained on answers that are, or may be, among these."""
    return tuple(
        note for name in metrics if name in release.scores for note in _notes(release, name)
    )


def trained_on(scores: Path, name: str) -> Sequence[Mapping[str, object]]:
    """The releases that a metric's scorer was retrained on, from the file beside its scores.

    Each has its name, version and content_sha256, oldest first. Empty if the scorer was retrained
    on none, or if there is no such file.
    """
    sources = _provenance(scores, name).get("trained_on")
    if not isinstance(sources, list):
        return ()
    return [source for source in sources if isinstance(source, dict)]


def judges_among(release: Release, metrics: Sequence[str]) -> dict[str, str]:
    """The metrics that are answers of a judge, with what it was asked about."""
    judges = {}
    for name in metrics:
        if name in release.scores:
            judge = _provenance(release.scores[name], name).get("judge")
            if isinstance(judge, dict):
                judges[name] = str(judge.get("asks"))
    return judges


def judge_notes(release: Release, metrics: Sequence[str]) -> tuple[str, ...]:
    """What has to be known about the metrics of judges that were asked about pairs."""
    return tuple(
        f'metric "{name}" has a judge\'s preferences between the two sets of a question, not '
        "scores of single sets: its correlations with scores are not what the judge was asked for"
        for name, asks in judges_among(release, metrics).items()
        if asks == "pairs"
    )


def _provenance(scores: Path, name: str) -> Mapping[str, object]:
    try:
        content = json.loads(scores.with_name(f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _notes(release: Release, name: str) -> Iterator[str]:
    sources = trained_on(release.scores[name], name)
    digest = release.content_sha256
    others = [each for each in sources if digest is None or each.get("content_sha256") != digest]
    if len(others) < len(sources):
        yield from _note_on_this_release(release, name)
    # Another release, or other content of this one, may have the same triplets or participants.
    names = dict.fromkeys(f"{source.get('name')} {source.get('version')}" for source in others)
    if names:
        yield (
            f'metric "{name}" comes from a scorer that was retrained on {", ".join(names)}, '
            "which is not what is analysed; where it asked about the same triplets or asked the "
            "same people, these figures are too good"
        )


def _note_on_this_release(release: Release, name: str) -> Iterator[str]:
    note = f'metric "{name}" comes from a scorer that was retrained on answers of this release'
    if not has_split(release):
        yield (
            f"{note}, and no question of it was held out: its figures are too good; export the "
            "release with --split and retrain on that"
        )
    elif release.part is None:
        yield f"{note}; its figures over all questions are too good: use --part {TEST}"
    elif release.part != TEST:
        yield f"{note}; its figures over this part are too good: use --part {TEST}"
