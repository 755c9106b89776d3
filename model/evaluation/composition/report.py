"""Adding the composition gap to what is printed of a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import Benchmark, SystemLists
from hsfiq.model.evaluation.composition.gap import (
    INPUTS,
    LABELS,
    NDCG,
    ThreeAnswers,
    figures_of,
    gaps_of,
    ks_of,
    query_values,
)
from hsfiq.model.evaluation.lists.match import match_runs
from hsfiq.model.evaluation.metrics import Figure
from hsfiq.model.evaluation.table import aligned, percent
from hsfiq.model.evaluation.uncertainty.per_query import QueryRow
from hsfiq.readers.submissions import read_run

if TYPE_CHECKING:
    from hsfiq.analysis.resampling.interval import ConfidenceInterval

DEFINITION = """\
gap of recall: both less the better of text and image alone; gap of nDCG: 1 - that / both (CIRCUS).
nDCG@{k} counts targets below place {k} as 0, which is ours; CIRCUS takes complete rankings."""


@dataclass(frozen=True, slots=True)
class CompositionRequest:
    """A system's runs with one input alone, the files of each; both or none."""

    text_only: tuple[Path, ...] = ()
    image_only: tuple[Path, ...] = ()
    intervals: bool = False
    seed: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.text_only and not self.image_only

    def check(self, benchmark: Benchmark) -> None:
        """Refuse what cannot be computed, before anything is read."""
        if self.is_empty:
            return
        for option, files in (("--text-only", self.text_only), ("--image-only", self.image_only)):
            if not files:
                what = "is missing: the gap compares both inputs with each one alone"
                raise UnreadableInput(option, what, "name the lists of that input too")
        if benchmark.withholds_targets:
            raise UnreadableInput("--text-only", f"the targets of {benchmark.split} are withheld")


NO_COMPOSITION = CompositionRequest()


def add_composition(
    result: dict[str, Any],
    lines: list[str],
    benchmark: Benchmark,
    answers: Mapping[str, SystemLists],
    request: CompositionRequest,
    *,
    allow_missing: bool,
) -> None:
    """Add the gap of the system whose lists with both inputs are `answers`."""
    if request.is_empty:
        return
    alone = []
    for files in (request.text_only, request.image_only):
        runs = [read_run(path) for path in files]
        alone.append(match_runs(benchmark, runs, allow_missing=allow_missing)[0])
    rows = query_values(benchmark, ThreeAnswers(answers, *alone))
    figures = figures_of(rows)
    composition: dict[str, Any] = {
        "text_only": [str(path) for path in request.text_only],
        "image_only": [str(path) for path in request.image_only],
    } | {name: figure.value for name, figure in figures.items()}
    if reasons := {name: each.reason for name, each in figures.items() if each.reason}:
        composition["reason"] = reasons
    result["composition"] = composition
    lines += ["", *table(figures, ks_of(benchmark))]
    if request.intervals:
        intervals = composition_intervals(rows, figures, request.seed)
        composition["ci"] = {name: each.to_json()["ci"] for name, each in intervals.items()}
        composition["ci_method"] = next(iter(intervals.values())).to_json()["ci_method"]
        lines += interval_lines(figures, intervals)


def table(figures: Mapping[str, Figure], ks: Sequence[int]) -> list[str]:
    """A row for each K, and for nDCG; in per cent."""
    rows = [["composition", *INPUTS, "gap", *LABELS]]
    for k in ks:
        names = [f"{name}@{k}" for name in (*INPUTS, "gap", *LABELS)]
        rows.append([f"recall@{k}", *(percent(figures[name]) for name in names)])
    for end in (f"@{max(ks)}", ""):
        names = [*(f"{NDCG}_{name}{end}" for name in INPUTS), f"composition_gap{end}"]
        cells = [percent(figures[name]) for name in names]
        rows.append([f"{NDCG}{end}", *cells, *[""] * len(LABELS)])
    lines = aligned(rows)
    reasons = (figures[f"{NDCG}_{name}"].reason for name in INPUTS)
    if reason := next(filter(None, reasons), None):
        lines.append(f"{NDCG} is undefined: {reason}; give complete rankings")
    return [*lines, *DEFINITION.format(k=max(ks)).split("\n")]


def composition_intervals(
    rows: Sequence[QueryRow], figures: Mapping[str, Figure], seed: int
) -> dict[str, ConfidenceInterval]:
    """The intervals of the defined figures, all from the same resamples of clusters."""
    import numpy as np  # noqa: PLC0415 (with the analysis extra)

    from hsfiq.analysis.resampling.interval import percentile_interval  # noqa: PLC0415
    from hsfiq.model.evaluation.uncertainty.comparison import (  # noqa: PLC0415
        UNIT,
        parts_of,
        resampled_parts,
        values_of,
    )

    settled = [name for name in rows[0].values if figures[name].value is not None]
    parts = parts_of(rows)
    means = resampled_parts(parts, values_of(rows)[settled], seed).mean(axis=0)
    columns = dict(zip(settled, means.T, strict=True))
    gaps = [gaps_of(dict(zip(settled, row, strict=True))) for row in means.tolist()]
    for name in figures:
        if name not in columns and figures[name].value is not None:
            columns[name] = np.array([each.get(name, np.nan) for each in gaps])
    n_clusters = sum(part.n_clusters for part in parts)
    return {
        name: percentile_interval(columns[name], unit=UNIT, n_clusters=n_clusters, seed=seed)
        for name in figures
        if name in columns
    }


def interval_lines(
    figures: Mapping[str, Figure], intervals: Mapping[str, ConfidenceInterval]
) -> list[str]:
    """The intervals of the gaps; JSON has all."""
    return [
        f"  {name}  {percent(figures[name])} [{100 * each.low:.2f}, {100 * each.high:.2f}]"
        for name, each in intervals.items()
        if "gap" in name
    ]
