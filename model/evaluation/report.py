"""An evaluation as plain text, for a person at a terminal. Only here are figures rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hsfiq.model.evaluation.benchmark import TITLES
from hsfiq.model.evaluation.figures import SUMMARY
from hsfiq.model.evaluation.results import NO_SIZE, SEMANTIC, Evaluation, Figure, PartFigures

COLUMN = 9
"""Width of a column of numbers."""


def to_table(evaluation: Evaluation, whose: str) -> str:
    """Lay an evaluation out for reading: a row for each figure, in per cent.

    Args:
        evaluation: what `evaluate` returned.
        whose: the run or the scorer.

    Returns:
        Lines, no line end after the last.
    """
    benchmark = evaluation.benchmark
    order = f", captions {benchmark.captions}" if benchmark.captions else ""
    lines = [f"{TITLES[benchmark.name]} {benchmark.split}{order}: {whose}"]
    columns = list(evaluation.parts)
    if len(columns) > 1:
        columns.append(evaluation.whole)
    lines += table(evaluation, columns)
    for name, figure in named_figures(evaluation.whole):
        if figure.value is None:
            lines.append(f"{name} is undefined: {figure.reason}")
    if evaluation.whole.corpus_size is None:
        lines.append(f"the corpus' size is unknown: {NO_SIZE}")
    for what, count in (
        ("list", evaluation.n_missing),
        ("ranking of the image set", evaluation.n_missing_subset),
    ):
        if count:
            queries = "1 query" if count == 1 else f"{count:,} queries"
            lines.append(f"MISSING: {queries} without a {what}, counted as a miss each")
    return "\n".join(lines + [f"note: {note}" for note in evaluation.notes])


def table(evaluation: Evaluation, columns: Sequence[PartFigures]) -> Iterator[str]:
    """A column for each part and, where they are several, one for their mean."""
    rows = [
        ("queries", [f"{it.n_queries:,}" for it in columns]),
        (
            f"corpus: {columns[0].corpus}",
            ["-" if it.corpus_size is None else f"{it.corpus_size:,}" for it in columns],
        ),
    ]
    for name, figure in named_figures(evaluation.whole):
        if name == "mean":
            label = f"mean of {' and '.join(SUMMARY[evaluation.benchmark.name])}"
            rows.append((label, [*[""] * (len(columns) - 1), percent(figure)]))
        else:
            rows.append((name, [percent(dict(named_figures(it))[name]) for it in columns]))
    width = max(len(label) for label, _ in rows)
    if len(columns) > 1:
        yield " " * width + "".join(it.name.rjust(COLUMN) for it in columns)
    for label, cells in rows:
        yield label.ljust(width) + "".join(cell.rjust(COLUMN) for cell in cells)


def named_figures(part: PartFigures) -> list[tuple[str, Figure]]:
    """All figures of a part, those of aspects too."""
    aspects = {f"{SEMANTIC} {aspect}": figure for aspect, figure in part.aspects.items()}
    return list((part.figures | aspects).items())


def percent(figure: Figure) -> str:
    """A figure as the field prints it."""
    return "-" if figure.value is None else f"{100 * figure.value:.2f}"
