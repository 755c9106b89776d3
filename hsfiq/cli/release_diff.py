"""`hsfiq release diff`: what differs between two releases, and which figures moved."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hsfiq.cli.common import JsonOption, print_result, requires
from hsfiq.errors import UnreadableInput
from hsfiq.text import one_line

if TYPE_CHECKING:
    from hsfiq.releases.diff import ReleaseDiff, TableDiff

RESAMPLES = 500
OF_INTERVALS = {"low", "high", "p", "p_clustered", "df", "n_clusters"}
"""Columns of the figures that describe the interval or the test of a figure."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hsfiq release diff releases/a-hp-1.0.0 releases/a-hp-1.1.0")(diff)


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A release folder.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another one, of the same kind.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Also compare the figures of this metric, such as recall@5; can be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two releases: rows added, gone and changed, and the figures that moved."""
    from hsfiq.releases.diff import diff as diff_folders

    compared = diff_folders(before, after)
    figures = moved_figures(before, after, metric) if metric else {}
    result = {
        "a": str(before),
        "b": str(after),
        "differs": compared.differs,
        "facts": compared.facts,
        "tables": {name: asdict(table) for name, table in compared.tables.items()},
        "figures": figures,
    }
    print_result(result, as_text(compared, figures), as_json=as_json)


def moved_figures(before: Path, after: Path, metrics: list[str]) -> dict[str, dict[str, Any]]:
    """The figures of `hsfiq analyze` that differ, with n and the interval in each release."""
    first, second = figures_of(before, metrics), figures_of(after, metrics)
    moved = {}
    for name in dict.fromkeys([*first, *second]):
        figure, changed = first.get(name, {}), second.get(name, {})
        if any(figure.get(key) != changed.get(key) for key in {*figure, *changed} - OF_INTERVALS):
            moved[name] = {"a": figure, "b": changed}
    return moved


def figures_of(folder: Path, metrics: list[str]) -> dict[str, dict[str, Any]]:
    """The figures of a release by their place in the analysis."""
    with requires("analysis"):
        from hsfiq.analysis.data.judged import kind_of
        from hsfiq.analysis.kinds import STATISTICS
    from hsfiq.releases.folder import require_readable

    require_readable(folder)
    kind = kind_of(folder)
    if kind == "arena":
        what = "votes of an arena are about lists of live systems, which have no metric"
        raise UnreadableInput("--metric", what, "leave it out")
    if kind in STATISTICS:
        from hsfiq.analysis.analyze import load_kind_inputs
        from hsfiq.analysis.kinds.kind import analyze_judged

        of_kind = load_kind_inputs(folder, metrics, n_resamples=RESAMPLES)
        frame = analyze_judged(
            of_kind.release, of_kind.statistics, of_kind.metrics, of_kind.bootstrap
        ).to_frame()
    else:
        from hsfiq.analysis.analyze import analyze, load_inputs

        inputs = load_inputs(folder, metrics, n_resamples=RESAMPLES)
        frame = analyze(inputs.release, inputs.metrics, inputs.bootstrap).to_frame()
    return {
        str(name): {str(key): value for key, value in row.items() if is_number(value)}
        for name, row in frame.to_dict(orient="index").items()
        if name not in ("", "release")
    }


def is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value)


def as_text(compared: ReleaseDiff, figures: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{name}: {short(value)} -> {short(changed)}"
        for name, (value, changed) in compared.facts.items()
    ]
    for name, table in compared.tables.items():
        lines += table_lines(name, table)
    if not compared.differs:
        lines.append("the tables have the same rows")
    for name, sides in figures.items():
        lines.append(f"{one_line(name)}: {figure_text(sides['a'])} -> {figure_text(sides['b'])}")
    return "\n".join(lines)


def table_lines(name: str, table: TableDiff) -> list[str]:
    if table.only_in is not None:
        return [f"{name}: only in {table.only_in}"]
    if not table.differs:
        return []
    rows = f"{table.n_before:,} -> {table.n_after:,} rows"
    counts = f"{table.n_added:,} added, {table.n_gone:,} gone, {table.n_changed:,} changed"
    lines = [f"{name}: {rows}; {counts}"]
    lines += [f"  + {short(key)}" for key in table.added]
    lines += [f"  - {short(key)}" for key in table.gone]
    lines += [
        f"  ~ {short(key)}: {', '.join(change_text(*each) for each in changes.items())}"
        for key, changes in table.changed.items()
    ]
    if table.n_changed > len(table.changed):
        counts = ", ".join(f"{column} {n:,}" for column, n in table.changed_columns.items())
        lines.append(f"  rows changed by column: {counts}")
    return lines


def change_text(column: str, values: tuple[Any, Any]) -> str:
    return f"{column} {short(values[0])} -> {short(values[1])}"


def short(value: object) -> str:
    text = one_line(str(value))
    return text if len(text) <= 70 else f"{text[:67]}..."


def figure_text(figure: dict[str, Any]) -> str:
    if not figure:
        return "none"
    values = [f"{name} {value:.4g}" for name, value in figure.items() if name not in OF_INTERVALS]
    interval = (
        f" [{figure['low']:.4g}, {figure['high']:.4g}]" if {"low", "high"} <= figure.keys() else ""
    )
    return f"{', '.join(values)}{interval}"
