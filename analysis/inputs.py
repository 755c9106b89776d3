"""What an analysis starts from: a release, metrics, and resamples for the intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hsfiq.analysis.data.judged import JudgedRelease, kind_of, read_judged, take_judged_part
from hsfiq.analysis.data.metrics import GivenScores, Metric, Recall, ScoreColumn, parse_metric
from hsfiq.analysis.data.parts import take_part
from hsfiq.analysis.data.release import Release, read_release, release_of_tables
from hsfiq.analysis.data.scores import find_scores
from hsfiq.analysis.kinds import STATISTICS, KindStatistics
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Unit


@dataclass(frozen=True, eq=False)
class Inputs:
    release: Release
    metrics: tuple[Metric, ...]
    bootstrap: Bootstrap


@dataclass(frozen=True, eq=False)
class KindInputs:
    """What the analysis of another kind than `pair` starts from."""

    release: JudgedRelease
    statistics: KindStatistics
    metrics: tuple[Metric, ...]
    bootstrap: Bootstrap


def load_kind_inputs(
    folder: Path,
    metrics: Sequence[str],
    scores: Sequence[Path] = (),
    *,
    part: str | None = None,
    unit: Unit | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    few_clusters: bool = False,
) -> KindInputs:
    """Read a release of a kind in `STATISTICS`; arguments and errors as those of `load_inputs`."""
    statistics = STATISTICS[kind_of(folder)]
    parsed = tuple(parse_metric(name) for name in metrics)
    release = read_judged(
        folder,
        statistics.main,
        statistics.columns,
        scores,
        nullable=statistics.nullable,
        of_sets=statistics.of_sets,
    )
    if part is not None:
        release = take_judged_part(release, part)
    bootstrap = Bootstrap.of_rows(
        release.answers,
        release.triplets,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
        is_widened=few_clusters,
    )
    return KindInputs(release, statistics, parsed, bootstrap)


ReleaseLike = Release | Path | str | Mapping[str, pd.DataFrame]
"""A release, its folder, or its tables by name: `preferences`, `sets` and `queries`."""
ScoresLike = Sequence[Path | str] | Path | str | Mapping[str, pd.DataFrame]
"""Scores files, or tables of scores by the metric's name."""


def load_inputs(
    release: ReleaseLike,
    metrics: Sequence[Metric | str] | Metric | str,
    scores: ScoresLike = (),
    *,
    part: str | None = None,
    unit: Unit | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    few_clusters: bool = False,
) -> Inputs:
    """Read a release and its scores files, and draw the resamples.

    Args:
        metrics: metrics or their names, or a single one: `recall@5`, or the name of a scores file.
        scores: further scores files, or one, each a metric with the file's name; or tables of
            scores by the metric's name.
        part: "train", "test" or "unused" to keep only the questions of that part of its split.
        unit: what is resampled: "participant", "triplet", "participant-triplet" or "row"; by
            default as the design requires (see `Bootstrap.of_rows`).
        few_clusters: widen the intervals as for few clusters with any number of them.

    Raises:
        AnalysisError: a file cannot be read, or a metric, the part or the unit is unknown.
    """
    if isinstance(metrics, str | Recall | ScoreColumn | GivenScores):
        metrics = [metrics]
    given = scores if isinstance(scores, Mapping) else {}
    if isinstance(scores, str | Path):
        scores = [scores]
    parsed = tuple(_metric(each, given) for each in metrics)
    files = [] if isinstance(scores, Mapping) else [Path(file) for file in scores]
    if isinstance(release, Mapping):
        release = release_of_tables(release)
    if not isinstance(release, Release):
        release = read_release(Path(release), files)
    elif files:
        release = replace(release, scores={**release.scores, **find_scores(release.folder, files)})
    if part is not None:
        release = take_part(release, part)
    bootstrap = Bootstrap.of_release(
        release,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
        is_widened=few_clusters,
    )
    return Inputs(release, parsed, bootstrap)


def _metric(metric: Metric | str, given: Mapping[str, pd.DataFrame]) -> Metric:
    if not isinstance(metric, str):
        return metric
    return GivenScores(metric, given[metric]) if metric in given else parse_metric(metric)
