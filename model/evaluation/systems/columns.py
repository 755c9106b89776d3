"""The columns of a table of systems: those of CIRQRS' Tables 4 to 6 and QuRe's Tables 2 to 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hsfiq.model.evaluation.benchmarks import Benchmark
from hsfiq.model.evaluation.metrics import Evaluation, Figure, mean_of

MEAN = "mean"
OVERALL = "overall"
CIRR: Final = (
    *("recall@1", "recall@5", "recall@10", "recall@50"),
    *("recall_subset@1", "recall_subset@2", "recall_subset@3"),
)
CIRCO: Final = ("map@5", "map@10", "map@25", "map@50")
BY_CATEGORY: Final = ("recall@10", "recall@50")
CIRQRS: Final = ("cirqrs@10", "cirqrs@50")

TITLES: Final = {
    "recall": "R",
    "recall_subset": "Rs",
    "map": "mAP",
    "cirqrs": "CIRQRS",
    "mean": "Avg.",
    "overall": "Overall",
}


def columns_of(benchmark: Benchmark) -> list[str]:
    """The columns by name: `FIGURE`, or `PART.FIGURE` for each category and their mean."""
    if benchmark.name == "cirr":
        return [*CIRR, MEAN, OVERALL]
    if benchmark.name == "circo":
        return list(CIRCO)
    summary = [f"{MEAN}.{MEAN}"] if benchmark.name == "fashioniq" else []
    return [*by_part(benchmark, BY_CATEGORY), *summary]


def cirqrs_columns(benchmark: Benchmark) -> list[str]:
    """Those of the table of CIRQRS@k."""
    if benchmark.name in ("cirr", "circo"):
        return [*CIRQRS, "cirqrs"]
    return [*by_part(benchmark, CIRQRS), f"{MEAN}.cirqrs"]


def by_part(benchmark: Benchmark, figures: Sequence[str]) -> list[str]:
    names = [part.name for part in benchmark.parts]
    return [f"{name}.{figure}" for name in (*names, MEAN) for figure in figures]


def values_of(evaluation: Evaluation, columns: Sequence[str]) -> dict[str, Figure]:
    """A system's figures by column."""
    parts = {part.name: part.figures for part in evaluation.parts}
    overall = dict(evaluation.overall.figures)
    if evaluation.benchmark.name == "cirr":
        overall[OVERALL] = mean_of({name: overall[name] for name in CIRR})
    if all(name in overall for name in CIRQRS):
        overall["cirqrs"] = mean_of({name: overall[name] for name in CIRQRS})
    return {column: figure_of(column, parts, overall) for column in columns}


def figure_of(
    column: str, parts: Mapping[str, Mapping[str, Figure]], overall: Mapping[str, Figure]
) -> Figure:
    part, _, figure = column.rpartition(".")
    return overall[figure] if part in ("", MEAN) else parts[part][figure]


def title(column: str) -> str:
    """`dress.recall@10` is `dress R@10`."""
    part, _, figure = column.rpartition(".")
    kind, at, k = figure.partition("@")
    return f"{part} {TITLES[kind]}{at}{k}".strip()
