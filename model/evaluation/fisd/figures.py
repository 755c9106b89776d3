"""The figures of each aspect and their means, with intervals. Needs the analysis extra.

Shares of queries have exact binomial intervals (Clopper and Pearson); other figures of an aspect,
and the means over the aspects, resample the queries within each aspect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from hsfiq.analysis.statistics.proportion import exact_proportion
from hsfiq.model.evaluation.benchmarks import Benchmark, Part, SystemLists
from hsfiq.model.evaluation.fisd.measures import CANDIDATES, FIGURES, column, query_values
from hsfiq.model.evaluation.uncertainty.comparison import OVERALL, figure_intervals
from hsfiq.model.evaluation.uncertainty.per_query import QueryRow

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
