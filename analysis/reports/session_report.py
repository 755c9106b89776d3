"""The report of sessions: curves by round, and a table of each system's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.cells import estimate_cell, number_cell
from hsfiq.analysis.reports.charts import (
    draw_legend,
    panels,
    panels_size,
    shorten,
    style_of_series,
)
from hsfiq.analysis.reports.document import Block, Chart, Column, Document, Row, Section, Table
from hsfiq.analysis.reports.formats.folder import report_files
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.sessions.measure import SessionAnalysis, SystemMeasures
from hsfiq.analysis.sessions.rules import Rules

PANEL_HEIGHT = 2.6  # inches
RANKS = {"mean_rank_current": "mean rank", "mean_rank_best": "mean best rank"}
SIMULATED = "The texts come from simulators. Every figure describes the simulation, not people."
METHODS = (
    "Ranks count from 1; b is the least rank of a session so far. Hits@K is the share of sessions "
    "with b at most K, Recall@K the share with the rank at most K. BRI is the mean over rounds of "
    "ln b by the trapezoidal rule (PlugIR, ACL 2024). Rounds to success are Kaplan and Meier's "
    "estimate, in which sessions that end without success are censored. Differences are between "
    "systems on the queries of both, after the last round that both have. Intervals are 95% "
    "bootstrap intervals over clusters of sessions; all figures use the same draws. results.json "
    "and tables/*.csv hold every figure in full precision, with its n and method."
)
AFTER_STOP = {
    "carry": "After a session's end its last list stays.",
    "drop": "After its end a session is left out of Recall and of the current rank.",
}


def session_report(analysis: SessionAnalysis) -> dict[str, bytes]:
    """The content of the report's files, by their paths in its folder; see `report_files`."""
    return report_files(document_of(analysis), analysis.to_json())


def document_of(analysis: SessionAnalysis) -> Document:
    n = sum(each.n_sessions for each in analysis.systems.values())
    caveats = [("Notes", ". ".join(analysis.notes))] if analysis.notes else []
    if analysis.simulated:
        caveats.insert(0, ("Simulated texts", SIMULATED))
    return Document(
        title="Searches over several rounds",
        summary=f"{count_text(n, 'session')} of {count_text(len(analysis.systems), 'system')}.",
        simulated=analysis.simulated,
        caveats=tuple(caveats),
        sections=(
            *sections(analysis),
            Section("methods", "Methods", (methods_of(analysis.rules),)),
        ),
    )


def sections(analysis: SessionAnalysis) -> Iterator[Section]:
    systems = analysis.systems
    hits = [f"hits@{k}" for k in analysis.rules.ks]
    curves = (
        curve_chart("hits", "Hits by round", systems, {name: name for name in hits}),
        curve_chart("ranks", "Ranks by round", systems, RANKS, is_log=True),
    )
    yield Section("curves", "Curves", curves)
    for number, (name, system) in enumerate(systems.items(), start=1):
        yield Section(f"system_{number}", name, tuple(system_blocks(number, name, system)))
    if analysis.differences:
        yield Section("differences", "Differences", (difference_table(analysis),))


def methods_of(rules: Rules) -> str:
    return f"{METHODS} {AFTER_STOP[rules.after_stop]}"


def system_blocks(number: int, name: str, system: SystemMeasures) -> Iterator[Block]:
    stops = ", ".join(f"{reason} {n:,}" for reason, n in system.stops.items())
    yield (
        f"{count_text(system.n_sessions, 'session')} of "
        f"{count_text(system.n_queries, 'query', 'queries')}; ends: {stops}."
    )
    rounds = range(1, system.n_rounds + 1)
    yield Table(
        f"rounds_{number}",
        f"{name}: figures by round",
        (Column("figure", "Figure"), *(Column(f"round_{n}", f"Round {n}") for n in rounds)),
        tuple((figure, *map(estimate_cell, each)) for figure, each in system.by_round.items()),
    )
    figures = dict(system.of_sessions)
    for figure, success in system.success.items():
        figures |= {f"{figure}, mean": success.mean, f"{figure}, median": success.median}
    yield Table(
        f"sessions_{number}",
        f"{name}: figures of sessions",
        (Column("figure", "Figure"), Column("value", "Value")),
        tuple((figure, estimate_cell(each)) for figure, each in figures.items()),
    )


def difference_table(analysis: SessionAnalysis) -> Table:
    (first, *_) = analysis.systems
    names = list(next(iter(analysis.differences.values())).figures)
    rows: list[Row] = [
        (
            figure,
            *(
                number_cell(each.value, each.reason, n=each.n, ci=each.ci, style="signed")
                for other in analysis.differences.values()
                for each in [other.figures[figure]]
            ),
        )
        for figure in names
    ]
    columns = (Column(f"system_{n}", name) for n, name in enumerate(analysis.differences, start=2))
    return Table(
        "differences",
        f"Differences to {first}, after the last round",
        (Column("figure", "Figure"), *columns),
        tuple(rows),
    )


def curve_chart(
    name: str,
    title: str,
    systems: Mapping[str, SystemMeasures],
    figures: Mapping[str, str],
    *,
    is_log: bool = False,
) -> Chart:
    """A panel for each figure, with a line for each system."""

    def paint(figure: Figure) -> None:
        for axes, (key, label) in zip(panels(figure, len(figures)), figures.items(), strict=True):
            for index, (system, measures) in enumerate(systems.items()):
                draw_curve(axes, index, shorten(system), measures.by_round[key])
            axes.set_title(label)
            axes.set_xlabel("round")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.grid(axis="y")
            if is_log:
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
                axes.yaxis.set_minor_locator(NullLocator())
        if len(systems) > 1:
            draw_legend(figure, figure.axes[0])

    values = [
        each.value
        for measures in systems.values()
        for key in figures
        for each in measures.by_round[key]
    ]
    return Chart(
        name,
        title,
        f"{title}, with 95% intervals.",
        "A panel for each figure, with a line for each system over the rounds; the tables have "
        "the figures.",
        panels_size(len(figures), PANEL_HEIGHT),
        paint,
        is_wide=True,
        is_empty=bool(np.isnan(values).all()),
    )


def draw_curve(axes: Axes, index: int, name: str, estimates: Sequence[Estimate]) -> None:
    style = style_of_series(index)
    rounds = np.arange(1, len(estimates) + 1)
    values = [each.value for each in estimates]
    low, high = (
        [getattr(each.ci, end) if each.ci else each.value for each in estimates]
        for end in ("low", "high")
    )
    axes.fill_between(rounds, low, high, color=style.colour, alpha=0.15, linewidth=0)
    axes.plot(
        rounds,
        values,
        color=style.colour,
        marker=style.mark,
        markerfacecolor=style.face,
        linestyle=style.line,
        label=name,
        ms=4,
    )
