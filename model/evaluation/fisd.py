"""FISD's figures of one system, from its runs or from a checkpoint's own lists."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import fsum, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hsfiq.analysis.statistics.preference import exact_proportion
from hsfiq.model.evaluation.benchmarks import Benchmark, Part, Query, SystemLists
from hsfiq.model.evaluation.comparison import OVERALL, figure_intervals
from hsfiq.model.evaluation.evaluate import EvaluationReport, system_of_scorer
from hsfiq.model.evaluation.lists import match_runs
from hsfiq.model.evaluation.metrics import QueryRow
from hsfiq.readers.datasets import ABOUT_DRAWN, ASPECTS
from hsfiq.readers.runs import read_run

if TYPE_CHECKING:
    from hsfiq.model.evaluation.evaluate import ScorerRequest


# The values of a query's list. Pure Python.
#
# Whether the reference is a candidate decides some aspects: a system that ignores "no" returns the
# reference itself. The paper does not say, so every figure is given both ways.

KS = (1, 5, 10)
MRR, NEGATIVE_ABOVE, REFERENCE_FIRST = "mrr", "hard_negative_above_target", "reference_first"

Candidates = Literal["with_reference", "without_reference"]
CANDIDATES: tuple[Candidates, ...] = ("with_reference", "without_reference")

FIGURES: dict[Candidates, tuple[str, ...]] = {
    "with_reference": (*(f"recall@{k}" for k in KS), MRR, NEGATIVE_ABOVE, REFERENCE_FIRST),
    "without_reference": (*(f"recall@{k}" for k in KS), MRR, NEGATIVE_ABOVE),
}

TITLES: dict[Candidates, str] = {
    "with_reference": "the reference is a candidate",
    "without_reference": "the reference is no candidate",
}


def column(candidates: Candidates, figure: str) -> str:
    return f"{candidates}.{figure}"


def query_values(query: Query, ranked: Sequence[str], corpus_size: int) -> dict[str, float | None]:
    """All values by `column`; None where a list that is cut does not determine it."""
    values = {}
    for candidates in CANDIDATES:
        keeps = candidates == "with_reference"
        kept = [image for image in ranked if keeps or image != query.reference]
        size = corpus_size - (not keeps)
        for k in KS:
            values[column(candidates, f"recall@{k}")] = recall(query, kept, min(k, size))
        place = kept.index(query.target) + 1 if query.target in kept else None
        values[column(candidates, MRR)] = None if place is None else 1 / place
        values[column(candidates, NEGATIVE_ABOVE)] = negatives_above(query, kept)
        if keeps:
            first = float(kept[0] == query.reference) if kept else None
            values[column(candidates, REFERENCE_FIRST)] = first
    return values


def recall(query: Query, ranked: Sequence[str], k: int) -> float | None:
    if query.target in ranked[:k]:
        return 1.0
    return 0.0 if len(ranked) >= k else None


def negatives_above(query: Query, ranked: Sequence[str]) -> float | None:
    """The share of the hard negatives that come before the target."""
    place = {image: number for number, image in enumerate(ranked)}
    last = len(ranked)
    target = place.get(query.target or "", last)
    negatives = [place.get(image, last) for image in query.hard_negatives]
    if target == last and last in negatives:
        return None  # neither is in the list
    return fsum(negative < target for negative in negatives) / len(negatives)


# The figures of each aspect and their means, with intervals. Needs the analysis extra.
#
# Shares of queries have exact binomial intervals (Clopper and Pearson); other figures of an aspect,
# and the means over the aspects, resample the queries within each aspect.

CUT = "the lists are too short to determine it"

EXACT, RESAMPLED = "exact binomial", "bootstrap of queries within each aspect"


@dataclass(frozen=True, slots=True)
class Share:
    """A figure with its 95% interval; both None, with a reason, if it is undefined."""

    value: float | None
    n: int
    ci: tuple[float, float] | None
    method: str
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "value": self.value,
            "n": self.n,
            "ci": self.ci,
            "ci_method": self.method,
        }
        return result | ({"reason": self.reason} if self.reason else {})


Figures = dict[str, dict[str, Share]]
"""By aspect or `OVERALL`, then by `measures.column`."""


def fisd_figures(benchmark: Benchmark, answers: Mapping[str, SystemLists], seed: int) -> Figures:
    rows = [
        QueryRow(query.query_id, part.name, query.reference, values)
        for part in benchmark.parts
        for query in part.queries
        for values in [query_values(query, answers[part.name].lists[query.query_id], size_of(part))]
    ]
    resampled = figure_intervals(rows, seed)

    def interval(part: str, name: str) -> tuple[float, float] | None:
        ends = resampled[part][name]
        return None if isnan(ends.low) else (ends.low, ends.high)

    figures: Figures = {
        part.name: {
            name: part_share(
                [row.values[name] for row in rows if row.part == part.name],
                interval(part.name, name),
            )
            for name in all_columns()
        }
        for part in benchmark.parts
    }
    means = {
        name: mean_share([shares[name] for shares in figures.values()], interval(OVERALL, name))
        for name in all_columns()
    }
    return figures | {OVERALL: means}


def all_columns() -> list[str]:
    return [
        column(candidates, figure) for candidates in CANDIDATES for figure in FIGURES[candidates]
    ]


def size_of(part: Part) -> int:
    return len(part.corpus.images or ())


def part_share(values: Sequence[float | None], ci: tuple[float, float] | None) -> Share:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return Share(None, len(values), None, EXACT, CUT)
    if set(known) <= {0.0, 1.0}:
        share = exact_proportion(round(sum(known)), len(known))
        return Share(share.rate, share.n, share.ci, EXACT)
    return Share(sum(known) / len(known), len(known), ci, RESAMPLED)


def mean_share(aspects: Sequence[Share], ci: tuple[float, float] | None) -> Share:
    """The mean of the aspects, each counting the same."""
    n = sum(share.n for share in aspects)
    values = [share.value for share in aspects if share.value is not None]
    if len(values) < len(aspects):
        return Share(None, n, None, RESAMPLED, CUT)
    return Share(sum(values) / len(values), n, ci, RESAMPLED)


# FISD's figures of one system, from its runs or from a checkpoint's own lists.

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
    path = files("hsfiq.model.evaluation") / "table1.toml"
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
