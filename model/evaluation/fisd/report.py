"""FISD's figures of one system, from its runs or from a checkpoint's own lists."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.evaluation.evaluate_system import EvaluationReport, system_of_scorer
from hsfiq.model.evaluation.fisd.figures import Figures, Share, fisd_figures, size_of
from hsfiq.model.evaluation.fisd.measures import CANDIDATES, FIGURES, TITLES, column
from hsfiq.model.evaluation.lists.match import match_runs
from hsfiq.readers.fisd import ABOUT_DRAWN, ASPECTS
from hsfiq.readers.submissions import read_run

if TYPE_CHECKING:
    from hsfiq.model.evaluation.evaluate_system import ScorerRequest

PUBLISHED_TRIPLETS = 200
COUNTS_ALONE = (
    "the files of Table 1 are not published; these have its counts, and more cannot be compared"
)
WIDTH = 12


def evaluate_fisd(
    benchmark: Benchmark,
    folder: Path,
    run: Sequence[Path],
    scorer: ScorerRequest | None,
    seed: int,
) -> EvaluationReport:
    """Compute the figures of runs or, without runs, of a checkpoint; lists for every query."""
    if scorer is not None:
        system = system_of_scorer(
            benchmark, scorer, allow_missing=False, depth=max(map(size_of, benchmark.parts))
        )
        name, answers, notes = system.name, system.answers, list(system.notes)
    else:
        answers, notes = match_runs(benchmark, [read_run(path) for path in run])
        name = ", ".join(map(str, run))
    figures = fisd_figures(benchmark, answers, seed)
    published = {}
    if has_published_counts(benchmark, folder):
        published = published_table()
        notes.append(COUNTS_ALONE)
    result: dict[str, Any] = {
        "benchmark": "fisd",
        "drawn": (folder / ABOUT_DRAWN).is_file(),
        "system": name,
        "corpora": {part.name: size_of(part) for part in benchmark.parts},
        "figures": to_json(figures),
        "seed": seed,
        "notes": notes,
    }
    if published:
        result["published"] = {"source": "FISD Table 1", "recall@1": published}
    return EvaluationReport(result, text_lines(result, figures, published))


def to_json(figures: Figures) -> dict[str, Any]:
    return {
        part: {
            candidates: {
                figure: shares[column(candidates, figure)].to_json()
                for figure in FIGURES[candidates]
            }
            for candidates in CANDIDATES
        }
        for part, shares in figures.items()
    }


def has_published_counts(benchmark: Benchmark, folder: Path) -> bool:
    """Whether the folder may hold the published files: 200 triplets of three images an aspect."""
    return not (folder / ABOUT_DRAWN).is_file() and all(
        len(part.queries) == PUBLISHED_TRIPLETS and size_of(part) == 3 * PUBLISHED_TRIPLETS
        for part in benchmark.parts
    )


def published_table() -> dict[str, dict[str, float]]:
    """Recall@1 as a fraction by system, then by aspect or "mean"."""
    path = files("hsfiq.model.evaluation.fisd") / "table1.toml"
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        system: {name: value / 100 for name, value in zip((*ASPECTS, "mean"), values, strict=True)}
        for system, values in rows.items()
    }


def text_lines(
    result: Mapping[str, Any], figures: Figures, published: Mapping[str, Mapping[str, float]]
) -> list[str]:
    title = "FISD's aspects on drawn garments" if result["drawn"] else "FISD"
    lines = [f"{title}: {result['system']} (per cent; 95% intervals of recall@1 in brackets)"]
    for candidates in CANDIDATES:
        names = FIGURES[candidates]
        lines += ["", f"{TITLES[candidates]}:"]
        lines.append(f"{'':{WIDTH}}" + "".join(f"{SHORT[name]:>{width(name)}}" for name in names))
        lines += [
            f"{part:{WIDTH}}"
            + "".join(
                f"{cell(shares[column(candidates, name)], name):>{width(name)}}" for name in names
            )
            for part, shares in figures.items()
        ]
    if published:
        lines += ["", "recall@1 in FISD's Table 1:"]
        lines.append(f"{'':{WIDTH}}" + "".join(f"{name:>{WIDTH + 1}}" for name in figures))
        lines += [
            f"{system:{WIDTH}}" + "".join(f"{row[name]:>{WIDTH + 1}.1%}" for name in figures)
            for system, row in published.items()
        ]
    return [*lines, *(f"note: {note}" for note in result["notes"])]


SHORT = {
    "recall@1": "recall@1",
    "recall@5": "recall@5",
    "recall@10": "recall@10",
    "mrr": "MRR",
    "hard_negative_above_target": "negative above",
    "reference_first": "reference first",
}


def width(name: str) -> int:
    return {"recall@1": 20, "hard_negative_above_target": 16, "reference_first": 17}.get(name, 11)


def cell(share: Share, name: str) -> str:
    if share.value is None:
        return "-"
    text = f"{100 * share.value:.1f}"
    if name == "recall@1" and share.ci is not None:
        low, high = share.ci
        text += f" [{100 * low:.1f}, {100 * high:.1f}]"
    return text
