"""The field's metrics of ranked lists, and the figures of one system on a benchmark.

If a list ends too early to determine a value, the value is None, never a guess. Pure Python.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO, StringIO
from math import fsum
from pathlib import Path
from typing import Any

from hsfiq.atomic_files import require_new, write_whole
from hsfiq.errors import UnreadableInput
from hsfiq.model.evaluation.benchmarks import TITLES, Benchmark, Part, Query, SystemLists
from hsfiq.text import spreadsheet_text

RECALL_KS = (1, 5, 10, 50)
CIRCO_KS = (5, 10, 25, 50)
SUBSET_KS = (1, 2, 3)
SEMANTIC_K = 10

SEMANTIC = "semantic_map@10"
NO_SIZE = "the folder has no list of candidates"
SUMMARY = {"fashioniq": ("recall@10", "recall@50"), "cirr": ("recall@5", "recall_subset@1")}
"""The figures that `mean` averages, as papers on either benchmark report it."""

ListMetric = Callable[[Query, Sequence[str]], float | None]
"""The value of a query's list; None if the list does not determine it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, as a fraction; None if it is undefined, with the reason."""

    value: float | None
    reason: str = ""


def reasons_of(figures: Mapping[str, Figure]) -> dict[str, str]:
    """The reasons of the undefined figures, by the names of these figures."""
    return {name: figure.reason for name, figure in figures.items() if figure.value is None}


@dataclass(frozen=True, slots=True)
class PartFigures:
    """The figures of a part, or their "mean" over parts."""

    name: str
    n_queries: int
    corpus: str
    corpus_size: int | None  # None if the folder does not list the candidates
    figures: dict[str, Figure]
    aspects: dict[str, Figure]  # CIRCO's semantic mAP@10
    n_missing: int = 0  # further candidates that could not be ranked

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "n_queries": self.n_queries,
            "corpus": {"name": self.corpus, "size": self.corpus_size},
        }
        if self.n_missing:
            result["corpus"]["missing"] = self.n_missing
        result |= {name: figure.value for name, figure in self.figures.items()}
        if self.aspects:
            result[SEMANTIC] = {name: figure.value for name, figure in self.aspects.items()}
        aspects = {f"{SEMANTIC}.{name}": figure for name, figure in self.aspects.items()}
        reasons = reasons_of(self.figures | aspects)
        if self.corpus_size is None:
            reasons["corpus.size"] = NO_SIZE
        return result | ({"reason": reasons} if reasons else {})


@dataclass(frozen=True, slots=True)
class Evaluation:
    benchmark: Benchmark
    overall: PartFigures  # of the only part, or the mean of several
    parts: tuple[PartFigures, ...]
    n_missing: int  # queries without a list, which count as misses
    n_missing_subset: int  # CIRR: queries without a ranking of the image set, if any has one
    notes: tuple[str, ...]
    by_query: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Values of queries, by figure and query id, that the lists alone do not determine."""

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {"benchmark": self.benchmark.name, "split": self.benchmark.split}
        if self.benchmark.captions is not None:
            result["captions"] = self.benchmark.captions
        if self.benchmark.prompt is not None:
            result["prompt"] = self.benchmark.prompt
        if self.benchmark.subset is not None:
            result["subset"] = self.benchmark.subset
        result |= self.overall.to_json()
        if self.n_missing or self.n_missing_subset:
            result["missing"] = {"queries": self.n_missing}
        if self.n_missing_subset:
            result["missing"]["subset_queries"] = self.n_missing_subset
        result["notes"] = list(self.notes)
        if len(self.parts) > 1:
            result["categories"] = {part.name: part.to_json() for part in self.parts}
        return result


def evaluate(
    benchmark: Benchmark, answers: Mapping[str, SystemLists], notes: Sequence[str] = ()
) -> Evaluation:
    """Compute a system's figures from its lists by part; the benchmark must have targets."""
    parts = tuple(part_figures(benchmark, part, answers[part.name]) for part in benchmark.parts)
    overall = parts[0] if len(parts) == 1 else mean_over_parts(parts)
    if benchmark.name in SUMMARY:
        summarized = {name: overall.figures[name] for name in SUMMARY[benchmark.name]}
        overall = replace(overall, figures=overall.figures | {"mean": mean_of(summarized)})
    queries = [(answers[part.name], query) for part in benchmark.parts for query in part.queries]
    return Evaluation(
        benchmark=benchmark,
        overall=overall,
        parts=parts,
        n_missing=sum(query.query_id not in given.lists for given, query in queries),
        n_missing_subset=sum(
            bool(given.subset) and query.query_id not in given.subset for given, query in queries
        ),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class Measure:
    """The values of one figure for each list.

    Attributes:
        lists: the rankings that it is computed from, by query id.
        problem: why lists do not determine their value, and the remedy.
    """

    metric: ListMetric
    lists: Mapping[str, tuple[str, ...]]
    problem: str

    def value(self, query: Query) -> float | None:
        """The value of a query's list, 0 if it has none; None if the list does not determine it."""
        ranked = self.lists.get(query.query_id)
        return 0.0 if ranked is None else self.metric(query, ranked)

    def mean(self, queries: Sequence[Query]) -> Figure:
        """The mean over queries; undefined if any value is."""
        values = [self.value(query) for query in queries]
        defined = [value for value in values if value is not None]
        if len(defined) < len(values):
            n = f"{len(values) - len(defined):,} of {len(values):,}"
            return Figure(None, f"{n} lists {self.problem}")
        return Figure(fsum(defined) / len(defined))


def part_figures(benchmark: Benchmark, part: Part, answers: SystemLists) -> PartFigures:
    aspects: dict[str, Figure] = {}
    if benchmark.name == "circo":
        semantic = Measure(
            precision_at(SEMANTIC_K, candidates_per_query(benchmark, part)),
            answers.lists,
            too_short(benchmark, part),
        )
        aspects = {
            aspect: semantic.mean([query for query in part.queries if aspect in query.aspects])
            for aspect in sorted({aspect for query in part.queries for aspect in query.aspects})
        }
    return PartFigures(
        name=part.name,
        n_queries=len(part.queries),
        corpus=part.corpus.name,
        corpus_size=None if part.corpus.images is None else len(part.corpus.images),
        figures={
            name: measure.mean(part.queries)
            for name, measure in measures_of(benchmark, part, answers).items()
        },
        aspects=aspects,
        n_missing=part.corpus.n_missing,
    )


def measures_of(benchmark: Benchmark, part: Part, answers: SystemLists) -> dict[str, Measure]:
    """The values computed from a part's lists, in the order of the figures."""
    n_candidates = candidates_per_query(benchmark, part)
    measure = partial(Measure, lists=answers.lists, problem=too_short(benchmark, part))
    measures: dict[str, Measure] = {}
    is_circo = benchmark.name == "circo"
    if is_circo:
        measures = {f"map@{k}": measure(precision_at(k, n_candidates)) for k in CIRCO_KS}
    for k in CIRCO_KS if is_circo else RECALL_KS:
        measures[f"recall@{k}"] = measure(recall_at(k, n_candidates))
    if benchmark.name == "cirr":
        measures |= subset_measures(answers)
    return measures


def candidates_per_query(benchmark: Benchmark, part: Part) -> int | None:
    """How many images a complete list holds; None if the folder does not list them."""
    if part.corpus.images is None:
        return None
    return len(part.corpus.images) - (not benchmark.keeps_reference)


def subset_measures(answers: SystemLists) -> dict[str, Measure]:
    """Recall_subset@k, from the rankings of the image sets or else from the complete lists."""
    remedy = (
        "give 3 for each, not counting the reference"
        if answers.subset
        else "give the recall_subset run too"
    )
    return {
        f"recall_subset@{k}": Measure(
            recall_within_set(k),
            answers.subset or answers.lists,
            f"do not determine which {k} of the image set come first; {remedy}",
        )
        for k in SUBSET_KS
    }


def mean_over_parts(parts: Sequence[PartFigures]) -> PartFigures:
    """The mean of each figure over the parts, with equal weights."""
    sizes = [part.corpus_size for part in parts if part.corpus_size is not None]
    return PartFigures(
        name="mean",
        n_queries=sum(part.n_queries for part in parts),
        corpus=parts[0].corpus,
        corpus_size=sum(sizes) if len(sizes) == len(parts) else None,
        figures={
            name: mean_of({part.name: part.figures[name] for part in parts})
            for name in parts[0].figures
        },
        aspects={},
        n_missing=sum(part.n_missing for part in parts),
    )


def mean_of(figures: Mapping[str, Figure]) -> Figure:
    """The mean of named figures; undefined if any is, with its reason."""
    values = []
    for name, figure in figures.items():
        if figure.value is None:
            return Figure(None, f"{name}: {figure.reason}")
        values.append(figure.value)
    return Figure(fsum(values) / len(values))


def too_short(benchmark: Benchmark, part: Part) -> str:
    problem = "are too short"
    if part.corpus.left_out:
        return f"{problem}, after the cut to the union; give longer ones, or rank the union alone"
    if not benchmark.keeps_reference:
        return f"{problem}; give 50 images for each, not counting the reference"
    return f"{problem}; give 50 images for each"


def recall_at(k: int, n_candidates: int | None) -> ListMetric:
    return lambda query, ranked: recall(ranked, target_of(query), k, n_candidates)


def precision_at(k: int, n_candidates: int | None) -> ListMetric:
    return lambda query, ranked: average_precision(ranked, query.truths, k, n_candidates)


def recall_within_set(k: int) -> ListMetric:
    """Recall@k of the target among the list's members of the image set."""

    def value(query: Query, ranked: Sequence[str]) -> float | None:
        members = [image for image in ranked if image in query.subset]
        return recall(members, target_of(query), k, len(query.subset))

    return value


def target_of(query: Query) -> str:
    if query.target is None:
        raise ValueError(f"query {query.query_id} has no target")
    return query.target


def recall(ranked: Sequence[str], target: str, k: int, n_candidates: int | None) -> float | None:
    """Recall@k: 1 if the target is among the first k, else 0.

    None if the list ends before place k without the target and is not the complete corpus, of
    `n_candidates` images (None if unknown).
    """
    if target in ranked:
        return float(ranked.index(target) < k)
    return 0.0 if is_settled(ranked, k, n_candidates) else None


def average_precision(
    ranked: Sequence[str], truths: Collection[str], k: int, n_candidates: int | None
) -> float | None:
    """AP@k over several ground truths (CIRCO's paper and code).

    The sum of the precisions at the places of ground truths among the first k, divided by
    min(number of ground truths, k); None if the list ends before place k without all truths, and is
    not the complete corpus.
    """
    hits, precisions = 0, 0.0
    for place, image in enumerate(ranked[:k], start=1):
        if image in truths:
            hits += 1
            precisions += hits / place
    if hits < len(truths) and not is_settled(ranked, k, n_candidates):
        return None
    return precisions / min(len(truths), k)


def is_settled(ranked: Sequence[str], k: int, n_candidates: int | None) -> bool:
    """Whether no image outside the list can be among the first k."""
    return len(ranked) >= k or len(ranked) == n_candidates


# An evaluation as plain text for a terminal: the only place where figures are rounded.

COLUMN_WIDTH = 9


def to_table(evaluation: Evaluation, system: str) -> str:
    """Format an evaluation: a row for each figure, in per cent."""
    benchmark = evaluation.benchmark
    order = f", captions {benchmark.captions}" if benchmark.captions else ""
    subset = f", subset {benchmark.subset}" if benchmark.subset else ""
    prompt = f", texts {benchmark.prompt!r}" if benchmark.prompt else ""
    lines = [f"{TITLES[benchmark.name]} {benchmark.split}{order}{prompt}{subset}: {system}"]
    columns = list(evaluation.parts)
    if len(columns) > 1:
        columns.append(evaluation.overall)
    lines += rows(evaluation, columns)
    reasons = reasons_of(dict(named_figures(evaluation.overall)))
    lines += [f"{name} is undefined: {reason}" for name, reason in reasons.items()]
    if evaluation.overall.corpus_size is None:
        lines.append(f"the size of the corpus is unknown: {NO_SIZE}")
    for kind, count in (
        ("list", evaluation.n_missing),
        ("ranking of the image set", evaluation.n_missing_subset),
    ):
        if count:
            queries = "1 query" if count == 1 else f"{count:,} queries"
            lines.append(f"MISSING: {queries} without a {kind}, each counted as a miss")
    return "\n".join(lines + [f"note: {note}" for note in evaluation.notes])


def rows(evaluation: Evaluation, columns: Sequence[PartFigures]) -> Iterator[str]:
    cells = {
        "queries": [f"{part.n_queries:,}" for part in columns],
        f"corpus: {columns[0].corpus}": [
            "-" if part.corpus_size is None else f"{part.corpus_size:,}" for part in columns
        ],
    }
    for name, figure in named_figures(evaluation.overall):
        if name == "mean":
            label = f"mean of {' and '.join(SUMMARY[evaluation.benchmark.name])}"
            cells[label] = [*[""] * (len(columns) - 1), percent(figure)]
        else:
            cells[name] = [percent(dict(named_figures(part))[name]) for part in columns]
    width = max(map(len, cells))
    if len(columns) > 1:
        yield " " * width + "".join(part.name.rjust(COLUMN_WIDTH) for part in columns)
    for label, row in cells.items():
        yield label.ljust(width) + "".join(cell.rjust(COLUMN_WIDTH) for cell in row)


def named_figures(part: PartFigures) -> list[tuple[str, Figure]]:
    aspects = {f"{SEMANTIC} {aspect}": figure for aspect, figure in part.aspects.items()}
    return list((part.figures | aspects).items())


def percent(figure: Figure) -> str:
    return "-" if figure.value is None else f"{100 * figure.value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


# The values of each query's list, whose mean is a figure; and writing them to a file.
#
# Pure Python, without numpy.

FORMATS = (".csv", ".jsonl", ".parquet")
MEAN = "mean"


@dataclass(frozen=True, slots=True)
class QueryRow:
    """The values of one query's list; None where the list does not determine it.

    Attributes:
        part: FashionIQ's category, or the benchmark.
        cluster: the reference image, or in CIRR the image set: queries with the same one depend on
            each other, since a system that fails on its images fails on all of them.
    """

    query_id: str
    part: str
    cluster: str
    values: dict[str, float | None]


def query_rows(benchmark: Benchmark, answers: Mapping[str, SystemLists]) -> list[QueryRow]:
    """The values of a system's lists, in the order of the benchmark's queries."""
    rows = []
    for part in benchmark.parts:
        measures = measures_of(benchmark, part, answers[part.name])
        for query in part.queries:
            values = {name: measure.value(query) for name, measure in measures.items()}
            if benchmark.name in SUMMARY:
                values[MEAN] = mean_of_two(*(values[name] for name in SUMMARY[benchmark.name]))
            rows.append(QueryRow(query.query_id, part.name, cluster_of(benchmark, query), values))
    return rows


def with_values(row: QueryRow, by_query: Mapping[str, Mapping[str, float]]) -> QueryRow:
    """The row with further values, by figure and query id; None where a query has none."""
    more = {name: values.get(row.query_id) for name, values in by_query.items()}
    return replace(row, values=row.values | more)


def mean_of_two(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else (first + second) / 2


def cluster_of(benchmark: Benchmark, query: Query) -> str:
    if benchmark.name == "cirr":
        return " ".join(sorted((query.reference, *query.subset)))
    return query.reference


def require_per_query_file(path: Path) -> None:
    """Refuse an existing file, and an unknown extension."""
    if path.suffix.lower() not in FORMATS:
        raise UnreadableInput(
            str(path), f"its extension is {path.suffix or 'missing'}", f"use {', '.join(FORMATS)}"
        )
    require_new(path)


def write_rows(path: Path, rows_of: Mapping[str, Sequence[QueryRow]]) -> None:
    """Write the values of every run: a row for each run and query, empty where undefined."""
    entries = [
        {"run": run, "query_id": row.query_id, "part": row.part, "cluster": row.cluster}
        | row.values
        for run, rows in rows_of.items()
        for row in rows
    ]
    write_whole(path, CONTENTS[path.suffix.lower()](entries))


Entries = list[dict[str, str | float | None]]


def to_csv(entries: Entries) -> bytes:
    text = StringIO(newline="")
    writer = csv.DictWriter(text, list(entries[0]))
    writer.writeheader()
    writer.writerows(
        {
            key: spreadsheet_text(value) if isinstance(value, str) else value
            for key, value in entry.items()
        }
        for entry in entries
    )
    return text.getvalue().encode()


def to_jsonl(entries: Entries) -> bytes:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()


def to_parquet(entries: Entries) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 (evaluating without this file does not need it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    texts = ("run", "query_id", "part", "cluster")
    schema = pa.schema(
        [(name, pa.string() if name in texts else pa.float64()) for name in entries[0]]
    )
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(entries, schema=schema), sink)
    return sink.getvalue()


CONTENTS = {".csv": to_csv, ".jsonl": to_jsonl, ".parquet": to_parquet}
