"""An evaluation as plain text for a terminal: the only place where figures are rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hsfiq.model.evaluation.benchmarks import TITLES
from hsfiq.model.evaluation.metrics import (
    NO_SIZE,
    SEMANTIC,
    SUMMARY,
    Evaluation,
    Figure,
    PartFigures,
)

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
    for name, figure in named_figures(evaluation.overall):
        if figure.value is None:
            lines.append(f"{name} is undefined: {figure.reason}")
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
