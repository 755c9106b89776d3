"""Trained retrieval systems' lists for the demo's queries (`hsfiq demo --systems`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hsfiq.cli.common import requires
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from hsfiq.demo.study import DrawnQuery, Rank
    from hsfiq.drawn import Garment
    from hsfiq.model.evaluation.benchmarks import Benchmark
    from hsfiq.model.scorer.loading import ScorerPaths
    from hsfiq.records import RankedList


def ranked_by(systems: Path, pictures: Path, cache: Path) -> Rank:
    """Rank with the trained systems in a folder, one run's folder each.

    Raises:
        UnreadableInput: fewer than two runs.
    """
    runs = runs_in(systems)
    with requires("model"):
        from hsfiq.model.scorer.loading import ScorerPaths

    paths = [ScorerPaths(run, pictures, cache=cache) for run in runs]

    def rank(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> list[RankedList]:
        return lists_of(paths, garments, queries)

    return rank


def runs_in(systems: Path) -> list[Path]:
    runs = sorted(best.parent for best in systems.glob("*/best.json"))
    if len(runs) < 2:
        raise UnreadableInput(
            str(systems),
            f"holds {len(runs)} trained systems; a study compares at least 2",
            "hsfiq train clip4cir-fashioniq --data drawn --out DIR/clip4cir",
        )
    return runs


def lists_of(
    systems: Sequence[ScorerPaths],
    garments: Sequence[Garment],
    queries: Sequence[DrawnQuery],
) -> list[RankedList]:
    """Every system's lists, without the reference, on the CPU."""
    from hsfiq.model.evaluation.rankings import rank_with_scorer
    from hsfiq.model.runtime import device_of
    from hsfiq.model.scorer.job import Callback
    from hsfiq.records import RankedList

    benchmark = benchmark_of(garments, queries)
    lists = []
    for of_system in systems:
        ranked = rank_with_scorer(benchmark, of_system, device_of("cpu"), Callback())
        for name, answers in ranked.answers.items():
            lists += [
                RankedList(query_id, ranked.loaded.system, images, ranked.scores[name][query_id])
                for query_id, images in answers.lists.items()
            ]
    return lists


def benchmark_of(garments: Sequence[Garment], queries: Sequence[DrawnQuery]) -> Benchmark:
    """The queries as a benchmark, with a part for each category."""
    from hsfiq.drawn import corpus
    from hsfiq.drawn.garments import CATEGORIES
    from hsfiq.model.evaluation.benchmarks import Benchmark, Corpus, Part, queries_of

    parts = []
    for category in CATEGORIES:
        images = tuple(garment.image_id for garment in corpus(garments, category))
        asked = [query for query in queries if query.triplet.category == category]
        both = [each for query in asked for each in queries_of(query.triplet.record(), "both")]
        wanted = {query.query_id for query in asked}
        chosen = tuple(query for query in both if query.query_id in wanted)
        parts.append(Part(category, chosen, Corpus("catalogue", images)))
    return Benchmark("drawn", "demo", tuple(parts), keeps_reference=False)
