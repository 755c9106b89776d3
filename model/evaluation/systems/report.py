"""What `hsfiq evaluate --system` prints: a row for each system, published rows below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import (
    TITLES,
    Benchmark,
    SystemLists,
    comparability_notes,
)
from hsfiq.model.evaluation.evaluate_system import ScorerRequest, about_scorer
from hsfiq.model.evaluation.lists.match import match_runs
from hsfiq.model.evaluation.metrics import Evaluation, Figure, evaluate
from hsfiq.model.evaluation.systems.columns import (
    cirqrs_columns,
    columns_of,
    title,
    values_of,
)
from hsfiq.model.evaluation.systems.published import (
    PublishedRow,
    published_rates,
    published_rows,
    why_incomparable,
)
from hsfiq.model.evaluation.table import aligned, percent
from hsfiq.model.evaluation.uncertainty.per_query import query_rows
from hsfiq.model.evaluation.uncertainty.report import UncertaintyRequest, add_intervals
from hsfiq.readers.submissions import read_run
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.model.evaluation.systems.rates import SystemRates

RATES = {"ge": "rate (>=)", "gt": "rate (>)"}
"""The preference rates, by the names of `hsfiq analyze`."""


@dataclass(frozen=True, slots=True)
class SystemsRequest:
    """Several systems to evaluate.

    Attributes:
        files: the runs of each system, by its name.
        release: a release of answers with the systems' own scores.
    """

    files: Mapping[str, tuple[Path, ...]]
    release: Path | None = None
    allow_missing: bool = False


@dataclass(frozen=True, slots=True)
class SystemsTable:
    """A table: a row of figures for each system, and published rows with the same columns."""

    caption: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, Figure]]
    published: tuple[PublishedRow, ...]

    def lines(self) -> list[str]:
        cells = [
            [system, *(percent(own[column]) for column in self.columns)]
            for system, own in self.rows.items()
        ]
        cells += [
            [f"{row.system} ({row.source})", *(published_cell(row, name) for name in self.columns)]
            for row in self.published
        ]
        return [self.caption, *aligned([["", *map(heading, self.columns)], *cells])]


def heading(column: str) -> str:
    return RATES.get(column) or title(column)


def published_cell(row: PublishedRow, column: str) -> str:
    """A figure as it is printed, with * where it contradicts others; a dash where there is none."""
    if column not in row.figures:
        return "-"
    return percent(Figure(row.figures[column])) + ("*" if column in row.slips else "")


@dataclass(frozen=True, slots=True)
class SystemsReport:
    result: dict[str, Any]
    lines: list[str]
    tables: tuple[SystemsTable, ...]
    simulated: bool


def evaluate_systems(
    benchmark: Benchmark,
    request: SystemsRequest,
    scorer: ScorerRequest | None,
    notes: Sequence[str],
    uncertainty: UncertaintyRequest,
) -> SystemsReport:
    """Evaluate every system; with a scorer their CIRQRS@k, with a release their preference rates.

    Raises:
        UnreadableInput: runs that do not fit the benchmark, or targets that are withheld.
    """
    if benchmark.withholds_targets:
        raise UnreadableInput("--system", f"the targets of {benchmark.split} are withheld")
    answers: dict[str, dict[str, SystemLists]] = {}
    evaluations: dict[str, Evaluation] = {}
    for system, files in request.files.items():
        runs = [read_run(path) for path in files]
        answers[system], own = match_runs(benchmark, runs, allow_missing=request.allow_missing)
        evaluations[system] = evaluate(benchmark, answers[system], own)
    about: dict[str, Any] = {}
    if scorer is not None:
        evaluations, about = with_cirqrs_of_all(
            benchmark, evaluations, answers, scorer, allow_missing=request.allow_missing
        )
    published = published_rows(benchmark, request.files)
    tables = tables_of(benchmark, evaluations, published, has_scorer=scorer is not None)
    all_notes = [*comparability_notes(benchmark), *notes, *published_notes(benchmark, published)]
    result = about | {
        "systems": {
            system: evaluation.to_json() | {"run": [str(path) for path in request.files[system]]}
            for system, evaluation in evaluations.items()
        },
        "published": [row.to_json() for row in published],
    }
    lines: list[str] = []
    for system in evaluations:
        add_intervals(
            result["systems"][system],
            lines,
            query_rows(benchmark, answers[system]),
            uncertainty,
            system,
        )
    rates = None
    if request.release is not None:
        rates = add_rates(result, tables, all_notes, request, uncertainty)
    without = [
        text
        for text, is_absent in (
            ("CIRQRS@k (needs --scorer)", scorer is None),
            ("preference rates (need --release)", request.release is None),
        )
        if is_absent
    ]
    if without:
        all_notes.append(f"done without: {', '.join(without)}")
    result["notes"] = all_notes
    table_lines = [line for table in tables for line in (*table.lines(), "")]
    return SystemsReport(
        result,
        [
            *table_lines[:-1],
            *lines,
            *system_lines(evaluations),
            *(f"note: {note}" for note in all_notes),
        ],
        tuple(tables),
        rates is not None and rates.simulated,
    )


def tables_of(
    benchmark: Benchmark,
    evaluations: Mapping[str, Evaluation],
    published: Sequence[PublishedRow],
    *,
    has_scorer: bool,
) -> list[SystemsTable]:
    """The table of recall or mAP and, with a scorer, that of CIRQRS@k."""
    order = f", captions {benchmark.captions}" if benchmark.captions else ""
    subset = f", subset {benchmark.subset}" if benchmark.subset else ""
    overall = next(iter(evaluations.values())).overall
    corpus = "unknown size" if overall.corpus_size is None else f"{overall.corpus_size:,} images"
    queries = count_text(overall.n_queries, "query", "queries")
    about = (
        f"{TITLES[benchmark.name]} {benchmark.split}{order}{subset}: {queries}, "
        f"corpus {overall.corpus}, {corpus}"
    )
    chosen = [(about, columns_of(benchmark))]
    if has_scorer:
        chosen.append((f"CIRQRS@k: {about}", cirqrs_columns(benchmark)))
    return [
        SystemsTable(
            caption,
            tuple(columns),
            {system: values_of(own, columns) for system, own in evaluations.items()},
            tuple(row for row in published if set(columns) & row.figures.keys()),
        )
        for caption, columns in chosen
    ]


def published_notes(benchmark: Benchmark, published: Sequence[PublishedRow]) -> list[str]:
    reason = why_incomparable(benchmark)
    if reason is not None:
        return [f"no published figures: {reason}"]
    if not published:
        return ["no published row has the name of a system, such as CLIP4CIR or SPRC"]
    slips = [f"{row.system} in {row.source}" for row in published if row.slips]
    return [f"* contradicts its row as printed: {', '.join(slips)}"] if slips else []


def system_lines(evaluations: Mapping[str, Evaluation]) -> list[str]:
    """Each system's undefined figures, missing lists and notes."""
    lines = []
    for system, evaluation in evaluations.items():
        figures = evaluation.overall.figures
        lines += [
            f"{system}: {name} is undefined: {figure.reason}"
            for name, figure in figures.items()
            if figure.value is None
        ]
        if evaluation.n_missing:
            lines.append(
                f"MISSING: {system}: {evaluation.n_missing:,} queries without a list, each counted "
                "as a miss"
            )
        lines += [f"note: {system}: {note}" for note in evaluation.notes]
    return lines


def with_cirqrs_of_all(
    benchmark: Benchmark,
    evaluations: Mapping[str, Evaluation],
    answers: Mapping[str, Mapping[str, SystemLists]],
    scorer: ScorerRequest,
    *,
    allow_missing: bool,
) -> tuple[dict[str, Evaluation], dict[str, Any]]:
    """The evaluations with CIRQRS@k, and the entries about the scorer, which is loaded once."""
    from hsfiq.model.evaluation.cirqrs import images_of_lists, with_cirqrs  # noqa: PLC0415
    from hsfiq.model.evaluation.rankings.prepared_scorer import prepare_scorer  # noqa: PLC0415

    wanted = frozenset().union(*(images_of_lists(benchmark.parts, own) for own in answers.values()))
    prepared = prepare_scorer(
        scorer.paths, wanted, scorer.device, scorer.callback, allow_missing=allow_missing
    )
    return {
        system: with_cirqrs(evaluation, answers[system], prepared)
        for system, evaluation in evaluations.items()
    }, about_scorer(prepared.loaded, prepared.missing_json())


def add_rates(
    result: dict[str, Any],
    tables: list[SystemsTable],
    notes: list[str],
    request: SystemsRequest,
    uncertainty: UncertaintyRequest,
) -> SystemRates:
    """Add the preference rates by the systems' own scores, and published ones of as many pairs."""
    from hsfiq.model.evaluation.systems.rates import RULES, rates_of  # noqa: PLC0415

    assert request.release is not None  # noqa: S101 (for mypy)
    systems = list(request.files)
    rates = rates_of(
        request.release, systems, intervals=uncertainty.intervals, seed=uncertainty.seed
    )
    for system, own in rates.rates.items():
        by_rule = own.to_json()
        result["systems"][system]["preference_rate"] = {rule: by_rule[rule] for rule in RULES}
    result["release"] = {"name": rates.release, "n_questions": rates.n_questions}
    if rates.simulated:
        result["release"]["simulated"] = True
        notes.append("SIMULATED: the release's answers come from simulated annotators")
    if rates.missing:
        notes.append(
            f"no preference rates of {', '.join(rates.missing)}: {request.release}.scores/ has no "
            "file of that name"
        )
    if rates.rates:
        rows = {
            system: {rule: rate_figure(getattr(own, rule)) for rule in RULES}
            for system, own in rates.rates.items()
        }
        published = tuple(published_rates(rates.n_questions, systems))
        result["published"] += [row.to_json() for row in published]
        caption = f"preference rates by the systems' own scores: {rates.release}"
        tables.append(SystemsTable(caption, RULES, rows, published))
    return rates


def rate_figure(rate: Any) -> Figure:
    return Figure(None, rate.reason) if rate.reason else Figure(rate.rate)
