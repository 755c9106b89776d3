"""The report's section on pairwise accuracy with ties, and accuracy by margin."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import measured, number, plain
from hsfiq.analysis.reports.document import Chart, Column, Measured, Section, Table
from hsfiq.analysis.statistics.margin import BINS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.statistics.margin import AccuracyByMargin, Margins
    from hsfiq.analysis.statistics.pairwise import PairwiseAccuracy


def accuracy_section(analysis: Analysis) -> Section:
    """Lay out pairwise accuracy with ties on both sides, and accuracy by margin."""
    blocks = (_accuracy_table(analysis), _margin_chart(analysis), _margin_table(analysis))
    return Section("accuracy", "Pairwise accuracy and margins", blocks)


def _accuracy_table(analysis: Analysis) -> Table:
    rows = tuple(
        (name, human, *_accuracy_cells(found))
        for name, metric in analysis.metrics.items()
        for human, found in metric.pairwise.items()
    )
    columns = (
        Column("metric", "Metric"),
        Column("human", "Human relation"),
        Column("acc_eq", "acc_eq", "acc_eq"),
        Column("uncalibrated", "Epsilon 0"),
        Column("in_sample", "In-sample"),
        Column("pairs", "Pairs"),
        Column("human_ties", "Human ties"),
        Column("metric_ties", "Metric ties"),
    )
    note = (
        "acc_eq chooses epsilon on other participants; in-sample chooses it on the pairs it is "
        "measured on, which flatters. A metric that always ties gets human ties / pairs. One that "
        "ties often loses here where people must choose: without human ties each of "
        "its ties is wrong."
    )
    return Table("pairwise_accuracy", "Pairwise accuracy with ties", columns, rows, note)


def _accuracy_cells(found: PairwiseAccuracy) -> Iterator[Measured | int]:
    yield measured(found.accuracy, found.n, found.ci, found.reason)
    yield plain(found.uncalibrated, found.reason)
    yield plain(found.in_sample, found.reason)
    yield from (found.n, found.human_ties, found.metric_ties)


def _sides(margins: Margins) -> dict[str, AccuracyByMargin]:
    return {"metric": margins.by_metric, "score": margins.by_score}


def _margin_chart(analysis: Analysis) -> Chart:
    every = {name: metric.margins for name, metric in analysis.metrics.items()}

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for place, (name, found) in enumerate(every.items()):
            look = (
                charts.COLOURS[place % len(charts.COLOURS)],
                charts.MARKS[place % len(charts.MARKS)],
            )
            nudge = (place - (len(every) - 1) / 2) * 0.06
            bins = found.by_metric.bins
            _paint_bins(
                left, [i + 1 + nudge for i in range(len(bins))], found.by_metric, name, look
            )
            gaps = [each.low + nudge for each in found.by_score.bins]
            _paint_bins(right, gaps, found.by_score, name, look)
        for axes in (left, right):
            axes.axhline(0.5, color=charts.INK, linewidth=1, linestyle=(0, (4, 3)), label="chance")
            axes.grid(axis="y")
        left.set(xticks=range(1, BINS + 1), xlim=(0.6, BINS + 0.4))
        right.xaxis.get_major_locator().set_params(integer=True)
        left.set(xlabel="metric difference, from small (1) to large", ylabel="accuracy")
        right.set(xlabel="difference of the two human scores")
        charts.legend(figure, left)

    return Chart(
        "margin",
        "Is a metric right more often where the two sets lie further apart?",
        _margin_caption(analysis),
        "Accuracy of each metric in bins of its own difference, left, and of the difference of the "
        "human scores, right, each with an interval.",
        (charts.WIDTH, 3.2),
        paint,
    )


def _paint_bins(
    axes: Axes, places: list[float], found: AccuracyByMargin, name: str, look: tuple[str, str]
) -> None:
    colour, mark = look
    right = [each.accuracy for each in found.bins]
    axes.plot(places, right, linewidth=1, ms=5, color=colour, marker=mark, label=charts.short(name))
    low, high = ([getattr(each.ci, end) for each in found.bins] for end in ("low", "high"))
    axes.vlines(places, low, high, color=colour, linewidth=1.6)


def _margin_caption(analysis: Analysis) -> str:
    said = []
    for name, metric in analysis.metrics.items():
        trend = metric.margins.by_metric.trend
        if not isnan(trend.rho) and not isnan(trend.ci.low):
            sure = trend.ci.low > 0
            said.append(
                f"{name} is {'surer' if sure else 'not shown to be surer'} where it sees a larger "
                f"difference (trend {number(trend.rho, 'signed')})."
            )
        elif not isnan(metric.margins.by_metric.trend.rho) or metric.margins.by_metric.bins:
            said.append(f"{name} knows one size of difference alone.")
    return " ".join(said) or "No pair has a preference and two different values."


def _margin_table(analysis: Analysis) -> Table:
    rows: list[tuple[str | int | Measured, ...]] = []
    for name, metric in analysis.metrics.items():
        for side, found in _sides(metric.margins).items():
            rows.extend(
                (
                    name,
                    side,
                    replace(plain(each.low), style="short"),
                    replace(plain(each.high), style="short"),
                    measured(each.accuracy, each.n, each.ci, None),
                    each.n,
                )
                for each in found.bins
            )
            trend = measured(found.trend.rho, found.n, found.trend.ci, found.trend.reason)
            rows.append((name, f"{side}: trend", "", "", trend, found.n))
    columns = (
        Column("metric", "Metric"),
        Column("side", "Difference of"),
        Column("low", "From"),
        Column("high", "To"),
        Column("accuracy", "Accuracy", "margin"),
        Column("pairs", "Pairs"),
    )
    return Table("margin", "Accuracy by margin", columns, tuple(rows))
