"""The report of a release of a question kind other than `pair`."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.kinds import KindAnalysis
from hsfiq.analysis.kinds.kind import REFERENCES, Figures, KindSummary
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.caveats import intervals_text
from hsfiq.analysis.reports.document import (
    Chart,
    Column,
    Document,
    Row,
    Section,
    Table,
    estimate_cell,
)
from hsfiq.analysis.reports.html import report_files
from hsfiq.analysis.reports.sessions import methods_of, sections
from hsfiq.analysis.reports.text import INTERVALS, to_text
from hsfiq.analysis.resampling.bootstrap import Bootstrap
from hsfiq.analysis.sessions.measure import SessionAnalysis
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# The charts of the figures of question kinds other than `pair`.

MARGIN = 1.2  # inches


def chart_of(figures: Figures) -> Chart | None:
    """A dot with its interval for each figure; None for fewer than two rows with one."""
    defined = {
        name: row
        for name, row in figures.rows.items()
        if not all(isnan(estimate.value) for estimate in row.values())
    }
    if len(defined) < 2:
        return None
    rows = [
        f"{name}\nn = {', '.join(dict.fromkeys(f'{each.n:,}' for each in row.values()))}"
        for name, row in defined.items()
    ]
    series = {
        column: [estimate_cell(row[column]) for row in defined.values()]
        for column in figures.columns
    }
    reference = REFERENCES.get(figures.name)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        charts.draw_intervals(axes, rows, series)
        if reference is not None:
            charts.draw_reference(axes, *reference)
        axes.set_xlabel(", ".join(series))
        if len(series) > 1 or reference is not None:
            charts.draw_legend(figure, axes)

    return Chart(
        name=f"{figures.name}_chart",
        title=figures.title,
        caption=f"{figures.title}, with 95% intervals; n below each name. {figures.method}",
        alt=f"One row for each {figures.rows_are}, with the figures of the table and their "
        "intervals.",
        size=(charts.WIDTH, charts.intervals_height(2 * len(rows), len(series), MARGIN)),
        paint=paint,
    )


SIMULATED = "The answers come from simulated annotators. Every figure describes the simulation."
FEW = 30


def about(summary: KindSummary) -> str:
    part = f", part {summary.part}" if summary.part else ""
    return (
        f"{summary.name} {summary.version} ({summary.kind}, study {summary.study}{part}): "
        f"{count_text(summary.n_questions, 'question')} about "
        f"{count_text(summary.n_queries, 'query', 'queries')}, "
        f"{count_text(summary.n_participants, 'participant')}"
    )


def kind_text(analysis: KindAnalysis, bootstrap: Bootstrap) -> str:
    """The figures as plain text; see `to_text`."""
    return to_text(document_of(analysis, bootstrap), INTERVALS)


def kind_report(
    analysis: KindAnalysis, bootstrap: Bootstrap, style: str | None = None
) -> dict[str, bytes]:
    """The content of the report's files, by their paths in its folder; see `report_files`."""
    return report_files(document_of(analysis, bootstrap), analysis.to_json(), style)


def document_of(analysis: KindAnalysis, bootstrap: Bootstrap) -> Document:
    summary = analysis.release
    return Document(
        title=f"What people answered: {summary.name} {summary.version}",
        summary=f"{about(summary)}.",
        simulated=summary.simulated,
        caveats=tuple(caveats(summary)),
        sections=(
            *(section_of(figures) for figures in analysis.tables),
            *(() if analysis.measures is None else measure_sections(analysis.measures)),
            Section("methods", "Methods", (methods_text(bootstrap),)),
        ),
    )


def caveats(summary: KindSummary) -> Iterator[tuple[str, str]]:
    if summary.simulated:
        yield "Simulated answers", SIMULATED
    if summary.n_participants < FEW:
        people = count_text(summary.n_participants, "participant")
        text = (
            f"The answers come from only {people}. The intervals are wider to account for this, "
            "but so few "
            "people cannot show how much people differ."
        )
        yield "Few participants", text


def section_of(figures: Figures) -> Section:
    if not figures.rows:
        return Section(figures.name, figures.title, ("No metric was requested.",))
    columns = (
        Column("name", figures.rows_are.capitalize()),
        *(Column(column.replace(" ", "_"), upper_first(column)) for column in figures.columns),
    )
    rows: list[Row] = [
        (name, *(estimate_cell(row[column]) for column in figures.columns))
        for name, row in figures.rows.items()
    ]
    table = Table(figures.name, figures.title, columns, tuple(rows), figures.method)
    chart = chart_of(figures)
    return Section(figures.name, figures.title, (table,) if chart is None else (chart, table))


def measure_sections(measures: SessionAnalysis) -> Iterator[Section]:
    """The sections of a report of sessions, with their methods under a separate name."""
    yield from sections(measures)
    yield Section("measures", "Methods of the measures by round", (methods_of(measures.rules),))


def upper_first(text: str) -> str:
    """Unlike `str.capitalize`, this does not change the other letters of a system's name."""
    return text[:1].upper() + text[1:]


def methods_text(bootstrap: Bootstrap) -> str:
    return (
        f"{intervals_text(bootstrap)} Those of agreement resample queries. "
        "results.json and tables/*.csv hold the figures in full precision, each with its n, "
        "clusters, method and seed. An undefined figure is a dash here and null in JSON, always "
        "with a reason."
    )
