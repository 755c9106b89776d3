"""The section on pairwise accuracy with ties, and on accuracy by margin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import number_cell, number_text
from hsfiq.analysis.reports.document import MANY, Chart, Row, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.statistics.margin import BINS, AccuracyByMargin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def accuracy_section(analysis: Analysis) -> Section:
    blocks = (_accuracy_table(analysis), _margin_chart(analysis), _margin_table(analysis))
    return Section("accuracy", "Pairwise accuracy and margins", blocks)


def _accuracy_table(analysis: Analysis) -> Table:
    rows = (
        (
            name,
            human,
            number_cell(accuracy.accuracy, accuracy.reason, n=accuracy.n, ci=accuracy.ci),
            number_cell(accuracy.base_rate, accuracy.reason),
            number_cell(accuracy.uncalibrated, accuracy.reason),
            number_cell(accuracy.in_sample, accuracy.reason),
            number_cell(accuracy.in_sample_base_rate, accuracy.reason),
            accuracy.n,
            accuracy.human_ties,
            accuracy.metric_ties,
        )
        for name, metric in analysis.metrics.items()
        for human, accuracy in metric.pairwise.items()
    )
    return table("pairwise_accuracy", rows)


def _margin_chart(analysis: Analysis) -> Chart:
    margins = {name: metric.margins for name, metric in analysis.metrics.items()}

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for index, (name, margin) in enumerate(margins.items()):
            shift = (index - (len(margins) - 1) / 2) * 0.06
            bins = [place + shift for place, _ in enumerate(margin.by_metric.bins, 1)]
            gaps = [margin_bin.low + shift for margin_bin in margin.by_score.bins]
            _paint_bins(left, bins, margin.by_metric, name, index)
            _paint_bins(right, gaps, margin.by_score, name, index)
        for axes in (left, right):
            axes.axhline(
                0.5, color=charts.INK, linewidth=1, linestyle=charts.DASHED, label="chance"
            )
            axes.grid(axis="y")
        left.set(xticks=range(1, BINS + 1), xlim=(0.6, BINS + 0.4))
        right.xaxis.get_major_locator().set_params(integer=True)
        left.set(xlabel="metric difference, from small (1) to large", ylabel="accuracy")
        right.set(xlabel="difference between the two human scores")
        charts.draw_legend(figure, left)

    return Chart(
        "margin",
        "Is a metric more often correct if the two sets differ more?",
        _margin_caption(analysis),
        "Accuracy of each metric in bins of its own difference (left) and of the difference "
        "between the human scores (right), each with an interval.",
        (charts.WIDTH, 3.2),
        paint,
        is_wide=True,
        is_empty=not any(margin.by_metric.bins for margin in margins.values()),
    )


def _paint_bins(
    axes: Axes, places: Sequence[float], margin: AccuracyByMargin, name: str, index: int
) -> None:
    style = charts.style_of_series(index)
    intervals = [margin_bin.ci for margin_bin in margin.bins]
    low, high = ([getattr(ci, end) for ci in intervals] for end in ("low", "high"))
    axes.vlines(places, low, high, color=style.colour, linewidth=1.4)
    accuracies = [margin_bin.accuracy for margin_bin in margin.bins]
    label = charts.shorten(name)
    charts.plot_marks(axes, places, accuracies, style, label=label, linestyle=style.line)


def _margin_caption(analysis: Analysis) -> str:
    if len(analysis.metrics) > MANY:
        return _many_margins_caption(analysis)
    sentences = []
    for name, metric in analysis.metrics.items():
        margin = metric.margins.by_metric
        trend = margin.trend
        if not isnan(trend.rho) and not isnan(trend.ci.low):
            verb = "is" if trend.ci.low > 0 else "is not shown to be"
            sentences.append(
                f"{name} {verb} more often correct on pairs with a larger difference (trend "
                f"{number_text(trend.rho, 'signed')})."
            )
        elif not isnan(trend.rho) or margin.bins:
            sentences.append(f"All differences of {name} are of the same size.")
    return " ".join(sentences) or "No pair has a preference and two different metric values."


def _many_margins_caption(analysis: Analysis) -> str:
    trends = {name: metric.margins.by_metric.trend for name, metric in analysis.metrics.items()}
    rising = [name for name, trend in trends.items() if trend.ci.low > 0]
    caption = (
        f"{len(rising)} of {len(trends)} metrics are more often correct on pairs with a larger "
        "difference"
    )
    if not rising:
        return f"{caption}."
    steepest = max(rising, key=lambda name: trends[name].rho)
    trend = number_text(trends[steepest].rho, "signed")
    return f"{caption}, most clearly {steepest} (trend {trend})."


def _margin_table(analysis: Analysis) -> Table:
    rows = (
        row
        for name, metric in analysis.metrics.items()
        for side in ("metric", "score")
        for row in _margin_rows(name, side, getattr(metric.margins, f"by_{side}"))
    )
    return table("margin", rows)


def _margin_rows(name: str, side: str, margin: AccuracyByMargin) -> Iterator[Row]:
    for margin_bin in margin.bins:
        low, high = (
            number_cell(bound, style="short") for bound in (margin_bin.low, margin_bin.high)
        )
        accuracy = number_cell(margin_bin.accuracy, n=margin_bin.n, ci=margin_bin.ci)
        yield (name, side, low, high, accuracy, margin_bin.n)
    trend = number_cell(margin.trend.rho, margin.trend.reason, n=margin.n, ci=margin.trend.ci)
    yield (name, f"{side}: trend", "", "", trend, margin.n)
