"""Intervals, comparisons with other runs and values by query, added to what is printed of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import HsfiqError, UnreadableInput
from hsfiq.model.evaluation import metrics
from hsfiq.model.evaluation.benchmarks import Benchmark, SystemLists, comparability_notes
from hsfiq.model.evaluation.lists import match_runs
from hsfiq.readers.runs import read_run

if TYPE_CHECKING:
    from hsfiq.model.evaluation.comparison import Intervals, RunComparison, RunDifference

Rows = dict[str, list[metrics.QueryRow]]
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UncertaintyRequest:
    """The requested outputs besides the figures of a run.

    Attributes:
        compared: other systems' runs, the files of each by its name.
        per_query: a new file for the values by query.
    """

    intervals: bool = False
    compared: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    per_query: Path | None = None
    seed: int = 0

    @property
    def is_empty(self) -> bool:
        return not self.intervals and not self.compared and self.per_query is None

    @property
    def needs_resamples(self) -> bool:
        return self.intervals or bool(self.compared)

    def check(self, benchmark: Benchmark, files: Sequence[Path]) -> None:
        """Refuse what cannot be computed, before anything is read."""
        if self.is_empty:
            return
        if benchmark.withholds_targets:
            option = "--compare" if self.compared else "--intervals and --per-query"
            raise UnreadableInput(option, f"the targets of {benchmark.split} are withheld")
        runs = [tuple(files), *self.compared.values()]
        if len(set(runs)) < len(runs):
            raise UnreadableInput("--compare", "names a run twice", "name different files")
        if self.per_query is not None:
            metrics.require_per_query_file(self.per_query)
        if self.needs_resamples:
            try:
                from hsfiq.model.evaluation import comparison  # noqa: F401, PLC0415
            except ModuleNotFoundError as error:
                raise HsfiqError(
                    f"{error.name} is not installed, and intervals and comparisons need it",
                    remedy="pip install 'hsfiq[analysis]'",
                ) from error


NOTHING = UncertaintyRequest()
"""Figures alone."""


def add_uncertainty(
    result: Result,
    lines: list[str],
    name: str,
    benchmark: Benchmark,
    answers: Mapping[str, SystemLists],
    request: UncertaintyRequest,
    by_query: Mapping[str, Mapping[str, float]],
    *,
    allow_missing: bool,
) -> None:
    """Add what is asked for to the result and to the printed lines of the run `name`.

    `by_query` are further values of its queries by figure, which only the file has.
    """
    if request.is_empty:
        return
    rows = {name: metrics.query_rows(benchmark, answers)}
    add_intervals(result, lines, rows[name], request)
    compared = []
    for other, files in request.compared.items():
        matched, notes = match_runs(
            benchmark, [read_run(path) for path in files], allow_missing=allow_missing
        )
        rows[other] = metrics.query_rows(benchmark, matched)
        evaluation = metrics.evaluate(benchmark, matched, [*comparability_notes(benchmark), *notes])
        lines += ["", metrics.to_table(evaluation, other)]
        own = evaluation.to_json() | {"name": other, "run": [str(path) for path in files]}
        add_intervals(own, lines, rows[other], request)
        compared.append(own)
    if compared:
        from hsfiq.model.evaluation.comparison import compare_runs  # noqa: PLC0415

        comparisons = compare_runs(rows, request.seed)
        result["name"] = name
        result["compared"] = compared
        result["comparisons"] = [each.to_json() for each in comparisons]
        result["comparison_method"] = method_of(comparisons, request.seed)
        lines += [line for each in comparisons for line in ("", *comparison_lines(each))]
        lines.append(FOOTNOTE)
    if request.per_query is not None:
        complete = [metrics.with_values(row, by_query) for row in rows[name]]
        metrics.write_rows(request.per_query, {**rows, name: complete})
        result["per_query"] = str(request.per_query)
        lines.append(f"{request.per_query}: written")


def add_intervals(
    result: Result,
    lines: list[str],
    rows: Sequence[metrics.QueryRow],
    request: UncertaintyRequest,
    system: str = "",
) -> None:
    """Add the intervals of one system; `system` names it in the lines, if there are several."""
    if not request.needs_resamples:
        return
    from hsfiq.model.evaluation.comparison import OVERALL, figure_intervals  # noqa: PLC0415

    intervals = figure_intervals(rows, request.seed)
    overall = intervals[OVERALL]
    result["ci"] = ends_of(intervals, OVERALL)
    result["ci_method"] = next(iter(overall.values())).to_json()["ci_method"]
    for part, figures in result.get("categories", {}).items():
        figures["ci"] = ends_of(intervals, part)
    n = next(iter(overall.values())).n_clusters
    whose = f"{system}: " if system else ""
    lines.append(
        f"{whose}95% intervals ({n:,} clusters of queries with one reference or image set):"
    )
    width = max(map(len, overall))
    lines += [
        f"  {name.ljust(width)}  {percents(result[name])} "
        f"[{percents(each.low)}, {percents(each.high)}]"
        for name, each in overall.items()
        if result[name] is not None
    ]


def ends_of(intervals: Intervals, part: str) -> dict[str, object]:
    return {name: each.to_json()["ci"] for name, each in intervals[part].items()}


def method_of(comparisons: Sequence[RunComparison], seed: int) -> Result:
    from hsfiq.analysis.resampling.permutation import PERMUTATIONS  # noqa: PLC0415

    figures = comparisons[0].figures
    interval: Result = dict(next(iter(figures.values())).ci.to_json())
    return {
        "p": "paired permutation, runs exchanged for whole clusters; Holm over all pairs of runs",
        "n_permutations": PERMUTATIONS,
        "seed": seed,
        "ci_method": interval["ci_method"],
    }


def comparison_lines(comparison: RunComparison) -> list[str]:
    width = max(map(len, comparison.figures))
    return [
        f"{comparison.run} less {comparison.other}",
        *(
            f"  {name.ljust(width)}  {difference_text(each)}"
            for name, each in comparison.figures.items()
        ),
    ]


def difference_text(each: RunDifference) -> str:
    if isnan(each.difference):
        return f"- ({each.reason})"
    ends = f"[{percents(each.ci.low, '+')}, {percents(each.ci.high, '+')}]"
    p = "p -" if isnan(each.p) else f"p {each.p:.4f}, Holm {each.p_holm:.4f}"
    better = f"better in {each.n_better:,}, worse in {each.n_worse:,}"
    return f"{percents(each.difference, '+')} {ends}  {p}; {better}"


def percents(share: float, sign: str = "") -> str:
    return format(100 * share, f"{sign}.2f")


FOOTNOTE = """\
p: both runs exchanged at random for whole clusters, 9,999 times; Holm: over all pairs of runs."""
