"""`hsfiq evaluate` of several systems: their figures, compared, beside published ones."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hsfiq.atomic_files import require_new, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation import metrics
from hsfiq.model.evaluation.benchmarks import (
    PUBLISHED,
    TITLES,
    Benchmark,
    SystemLists,
    comparability_notes,
    size,
)
from hsfiq.model.evaluation.evaluate import ScorerRequest, about_scorer
from hsfiq.model.evaluation.lists import match_runs
from hsfiq.model.evaluation.uncertainty import UncertaintyRequest, add_intervals
from hsfiq.readers.runs import read_run
from hsfiq.text import count_text

if TYPE_CHECKING:
    from hsfiq.analysis.reports.document import Cell, NumberCell, Table
    from hsfiq.model.evaluation.comparison import SystemRates


# The columns of a table of systems: those of CIRQRS' Tables 4 to 6 and QuRe's Tables 2 to 5.

MEAN = "mean"
OVERALL = "overall"
CIRR: Final = (
    *("recall@1", "recall@5", "recall@10", "recall@50"),
    *("recall_subset@1", "recall_subset@2", "recall_subset@3"),
)
CIRCO: Final = ("map@5", "map@10", "map@25", "map@50")
BY_CATEGORY: Final = ("recall@10", "recall@50")
CIRQRS: Final = ("cirqrs@10", "cirqrs@50")

COLUMN_TITLES: Final = {
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


def values_of(evaluation: metrics.Evaluation, columns: Sequence[str]) -> dict[str, metrics.Figure]:
    """A system's figures by column."""
    parts = {part.name: part.figures for part in evaluation.parts}
    overall = dict(evaluation.overall.figures)
    if evaluation.benchmark.name == "cirr":
        overall[OVERALL] = metrics.mean_of({name: overall[name] for name in CIRR})
    if all(name in overall for name in CIRQRS):
        overall["cirqrs"] = metrics.mean_of({name: overall[name] for name in CIRQRS})
    return {column: figure_of(column, parts, overall) for column in columns}


def figure_of(
    column: str,
    parts: Mapping[str, Mapping[str, metrics.Figure]],
    overall: Mapping[str, metrics.Figure],
) -> metrics.Figure:
    part, _, figure = column.rpartition(".")
    return overall[figure] if part in ("", MEAN) else parts[part][figure]


def title(column: str) -> str:
    """`dress.recall@10` is `dress R@10`."""
    part, _, figure = column.rpartition(".")
    kind, at, k = figure.partition("@")
    return f"{part} {COLUMN_TITLES[kind]}{at}{k}".strip()


# Published figures of systems, and whether a benchmark's data are the published ones.


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a paper's table.

    Attributes:
        source: the paper and its table.
        figures: by column (see `columns_of`), as fractions.
        slips: columns whose printed figure contradicts the others of the row.
    """

    source: str
    system: str
    figures: dict[str, float]
    slips: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"source": self.source, "system": self.system}
        row["figures"] = self.figures
        return row | ({"slips": list(self.slips)} if self.slips else {})


@cache
def contents() -> dict[str, Any]:
    path = files("hsfiq.model.evaluation") / "published.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def why_incomparable(benchmark: Benchmark) -> str | None:
    """Why no published figure applies to these data; None if some apply."""
    tables = [table for table in contents()["tables"] if table["benchmark"] == benchmark.name]
    if not tables:
        return f"the papers have no table for {TITLES[benchmark.name]}"
    splits = {table["split"]: None for table in tables}
    if benchmark.split not in splits:
        sources = " and ".join(table["source"] for table in tables)
        return f"the split of {sources} is {' or '.join(splits)}, this is {benchmark.split}"
    is_of_split = all(
        part.corpus.name == "split" and not part.corpus.n_missing for part in benchmark.parts
    )
    reasons = {
        "they cover all queries": benchmark.subset is None,
        "they use captions in order": benchmark.captions in (None, "forward"),
        "they rank the images of the split files": is_of_split,
        "they have other numbers of triplets and images": has_published_sizes(benchmark),
    }
    return next((reason for reason, is_met in reasons.items() if not is_met), None)


def has_published_sizes(benchmark: Benchmark) -> bool:
    """Whether all parts are present, each with its published numbers of triplets and images."""
    is_cirr = benchmark.name == "cirr"
    expected = {
        name: sizes
        for (name, split), sizes in PUBLISHED.items()
        if split == benchmark.split and (name == "cirr") == is_cirr
    }
    return {part.name: size(part) for part in benchmark.parts} == expected


def published_rows(benchmark: Benchmark, systems: Iterable[str]) -> list[PublishedRow]:
    """The published rows of systems with these names; none if the data are others."""
    if why_incomparable(benchmark) is not None:
        return []
    wanted = {simplified(system) for system in systems}
    return [
        row
        for table in contents()["tables"]
        if (table["benchmark"], table["split"]) == (benchmark.name, benchmark.split)
        for row in rows_of(table)
        if simplified(row.system) in wanted
    ]


def rows_of(table: dict[str, Any]) -> list[PublishedRow]:
    slips = [slip.split(": ") for slip in table.get("slips", [])]
    return [
        PublishedRow(
            table["source"],
            system,
            {name: value / 100 for name, value in zip(table["columns"], values, strict=True)},
            tuple(column for other, column in slips if other == system),
        )
        for system, values in table["rows"].items()
    ]


def published_rates(n_questions: int, systems: Sequence[str]) -> list[PublishedRow]:
    """The published preference rates that are of so many questions."""
    wanted = {simplified(system) for system in systems}
    return [
        PublishedRow(table["source"], system, {table["rule"]: value / 100})
        for table in contents()["preferences"]
        if table["n_questions"] == n_questions
        for system, value in table["rows"].items()
        if simplified(system) in wanted
    ]


def simplified(system: str) -> str:
    """A name without case and punctuation: `CLIP4Cir` is `clip4cir`."""
    return "".join(character for character in system.lower() if character.isalnum())


# What `hsfiq evaluate --run NAME=FILE` prints: a row for each system, published rows below.

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
    rows: dict[str, dict[str, metrics.Figure]]
    published: tuple[PublishedRow, ...]

    def lines(self) -> list[str]:
        cells = [
            [system, *(metrics.percent(own[column]) for column in self.columns)]
            for system, own in self.rows.items()
        ]
        cells += [
            [f"{row.system} ({row.source})", *(published_cell(row, name) for name in self.columns)]
            for row in self.published
        ]
        return [self.caption, *metrics.aligned([["", *map(heading, self.columns)], *cells])]


def heading(column: str) -> str:
    return RATES.get(column) or title(column)


def published_cell(row: PublishedRow, column: str) -> str:
    """A figure as it is printed, with * where it contradicts others; a dash where there is none."""
    if column not in row.figures:
        return "-"
    return metrics.percent(metrics.Figure(row.figures[column])) + (
        "*" if column in row.slips else ""
    )


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
        raise UnreadableInput("--run", f"the targets of {benchmark.split} are withheld")
    answers: dict[str, dict[str, SystemLists]] = {}
    evaluations: dict[str, metrics.Evaluation] = {}
    for system, paths in request.files.items():
        runs = [read_run(path) for path in paths]
        answers[system], own = match_runs(benchmark, runs, allow_missing=request.allow_missing)
        evaluations[system] = metrics.evaluate(benchmark, answers[system], own)
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
            metrics.query_rows(benchmark, answers[system]),
            uncertainty,
            system,
        )
    rates = None
    if request.release is not None:
        rates = add_rates(result, tables, all_notes, request, uncertainty)
    without = [
        text
        for text, is_absent in (
            ("CIRQRS@k (needs --checkpoint)", scorer is None),
            ("preference rates (need --release)", request.release is None),
        )
        if is_absent
    ]
    if without:
        all_notes.append(f"omitted: {', '.join(without)}")
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
    evaluations: Mapping[str, metrics.Evaluation],
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
        return ["no system has the name of a published row, such as CLIP4CIR or SPRC"]
    slips = [f"{row.system} in {row.source}" for row in published if row.slips]
    return [f"* contradicts its row as printed: {', '.join(slips)}"] if slips else []


def system_lines(evaluations: Mapping[str, metrics.Evaluation]) -> list[str]:
    """Each system's undefined figures, missing lists and notes."""
    lines = []
    for system, evaluation in evaluations.items():
        lines += [
            f"{system}: {name} is undefined: {reason}"
            for name, reason in metrics.reasons_of(evaluation.overall.figures).items()
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
    evaluations: Mapping[str, metrics.Evaluation],
    answers: Mapping[str, Mapping[str, SystemLists]],
    scorer: ScorerRequest,
    *,
    allow_missing: bool,
) -> tuple[dict[str, metrics.Evaluation], dict[str, Any]]:
    """The evaluations with CIRQRS@k, and the entries about the scorer, which is loaded once."""
    from hsfiq.model.evaluation.rankings import (  # noqa: PLC0415
        images_of_lists,
        prepare_scorer,
        with_cirqrs,
    )

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
    from hsfiq.model.evaluation.comparison import RULES, rates_of  # noqa: PLC0415

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


def rate_figure(rate: Any) -> metrics.Figure:
    return metrics.Figure(None, rate.reason) if rate.reason else metrics.Figure(rate.rate)


# Tables of systems as CSV or LaTeX, in the layout of the analysis reports.

EXTENSIONS = (".csv", ".tex")


def require_table_file(path: Path) -> None:
    """Refuse an existing file, and an unknown extension."""
    if path.suffix.lower() not in EXTENSIONS:
        shown = path.suffix or "missing"
        raise UnreadableInput(str(path), f"its extension is {shown}", "use .csv or .tex")
    require_new(path)


def write_tables(path: Path, tables: Sequence[SystemsTable], *, simulated: bool) -> None:
    """Write all tables to one file, an empty line between them."""
    from hsfiq.analysis.reports.tables import (  # noqa: PLC0415
        to_csv,
        to_latex,
    )

    write = to_csv if path.suffix.lower() == ".csv" else to_latex
    texts = [
        write(document_table(f"systems-{number}", table), simulated=simulated)
        for number, table in enumerate(tables, start=1)
    ]
    write_whole(path, "\n".join(texts).encode())


def document_table(name: str, table: SystemsTable) -> Table:
    from hsfiq.analysis.reports.document import Column, NumberCell, Table  # noqa: PLC0415

    rows: list[tuple[Cell, ...]] = [
        (system, "", *(cell(own[column]) for column in table.columns))
        for system, own in table.rows.items()
    ]
    rows += [
        (
            row.system,
            row.source,
            *(NumberCell(row.figures.get(c, nan), style="points") for c in table.columns),
        )
        for row in table.published
    ]
    columns = [Column("system", "System"), Column("source", "Source")]
    columns += [Column(column, heading(column)) for column in table.columns]
    note = "In per cent; rows with a source are published figures."
    return Table(name, f"{table.caption}.", tuple(columns), tuple(rows), note)


def cell(figure: metrics.Figure) -> NumberCell:
    from hsfiq.analysis.reports.document import NumberCell  # noqa: PLC0415

    if figure.value is None:
        return NumberCell(nan, reason=figure.reason, style="points")
    return NumberCell(figure.value, style="points")
