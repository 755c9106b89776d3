"""The analysis of an arena's release: what was analysed, and its figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hsfiq.analysis.arena.arena import Arena, arena
from hsfiq.analysis.arena.votes import COLUMNS, Turns
from hsfiq.analysis.data.judged import AnalysedRelease, read_judged, take_judged_part
from hsfiq.analysis.json_values import JsonRecord
from hsfiq.analysis.resampling.bootstrap import DEFAULT_RESAMPLES, Unit

KIND = "arena"
"""Of releases of arenas, in their manifests."""
TABLE = "votes"


@dataclass(frozen=True)
class ArenaAnalysis(JsonRecord):
    release: AnalysedRelease
    arena: Arena

    def to_json(self) -> dict[str, object]:
        return {"release": self.release.to_json(), **self.arena.to_json()}


def analyze_arena(
    folder: Path,
    *,
    part: str | None = None,
    turns: Turns = "all",
    unit: Unit | None = None,
    n_resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
    few_clusters: bool = False,
) -> ArenaAnalysis:
    """Read the votes of a release folder and compute their figures.

    AnalysisError: a file is missing or unreadable, or the part is unknown.
    """
    columns = [name for name in COLUMNS if name not in ("question_id", "query_id")]
    release = read_judged(folder, TABLE, columns)
    if part is not None:
        release = take_judged_part(release, part)
    figures = arena(
        release.answers,
        turns=turns,
        unit=unit,
        n_resamples=n_resamples,
        seed=seed,
        few_clusters=few_clusters,
    )
    return ArenaAnalysis(
        AnalysedRelease(**AnalysedRelease.facts_of(release, release.answers)), figures
    )
