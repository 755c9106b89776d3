"""How the human scores and the metrics are distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import DASH, estimate_cell, number_cell, number_text, p_cell
from hsfiq.analysis.reports.document import MANY, Cell, Chart, Column, Row, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.score_distribution import ScoreDistribution, ValuesAtScore
from hsfiq.analysis.statistics.normality import SHAPIRO_MAX, Normality

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def distribution_chart(distribution: ScoreDistribution) -> Chart:
    """The number of sets at each score, and each metric's mean and quartiles."""
    n_panels = 1 + len(distribution.metrics)

    def paint(figure: Figure) -> None:
        first, *others = charts.panels(figure, n_panels)
        scores = list(distribution.counts)
        first.bar(scores, list(distribution.counts.values()), color=charts.GREY, width=0.75)
        first.set(title="sets", xlabel="human score", xticks=scores)
        metrics = zip(others, distribution.metrics.items(), strict=True)
        for index, (axes, (name, by_score)) in enumerate(metrics):
            _paint_metric(axes, by_score, charts.COLOURS[index % len(charts.COLOURS)])
            axes.set_title(charts.shorten(name, charts.PANEL_TITLE))

    return Chart(
        "distribution",
        "Human scores, and each metric by human score",
        _distribution_caption(distribution),
        "Bars: the number of sets with each score. Then, for each metric, its mean at each score "
        "with an interval, over a grey bar from the lower to the upper quartile.",
        charts.panels_size(n_panels, 2.4),
        paint,
        is_wide=True,
        is_empty=not distribution.n_sets,
    )


def _paint_metric(axes: Axes, by_score: Mapping[int, ValuesAtScore], colour: str) -> None:
    scores = list(by_score)
    means = [values.mean for values in by_score.values()]
    low, high = ([values.quartiles[end] for values in by_score.values()] for end in (0, 2))
    axes.vlines(scores, low, high, color=charts.GREY, linewidth=7, alpha=0.5)
    axes.plot(scores, [mean.value for mean in means], color=colour, linewidth=1)
    axes.plot(scores, [mean.value for mean in means], color=colour, marker="o", ms=5)
    for score, mean in zip(scores, means, strict=True):
        if mean.ci is not None:
            axes.vlines(score, mean.ci.low, mean.ci.high, color=colour, linewidth=1.6)
    axes.set(xlabel="human score", xticks=scores)
    axes.grid(axis="y")


def _distribution_caption(distribution: ScoreDistribution) -> str:
    counts, total = distribution.counts, distribution.n_sets
    if not total:
        return "There are no scores."
    mode = max(counts, key=lambda score: counts[score])
    share = number_text(counts[mode] / total, "percent")
    caption = f"The most frequent score is {mode} ({share} of {count_text(total, 'set')})."
    if len(distribution.metrics) > MANY:
        rising = [name for name, means in _means(distribution).items() if means[-1] > means[0]]
        return (
            f"{caption} {len(rising)} of {len(distribution.metrics)} metrics have a higher mean at "
            "the highest score than at the lowest. Grey bars show the middle half of the sets."
        )
    for name, by_score in distribution.metrics.items():
        if len(by_score) > 1:
            lowest, highest = min(by_score), max(by_score)
            low, high = (by_score[score].mean.value for score in (lowest, highest))
            caption += (
                f" The mean of {name} goes from {number_text(low)} at score {lowest} to "
                f"{number_text(high)} at score {highest}."
            )
    return f"{caption} Grey bars show the middle half of the sets."


def _means(distribution: ScoreDistribution) -> dict[str, list[float]]:
    """Each metric's means by rising score, of the metrics with any."""
    return {
        name: [values.mean.value for _, values in sorted(by_score.items())]
        for name, by_score in distribution.metrics.items()
        if by_score
    }


def distribution_table(distribution: ScoreDistribution) -> Table:
    rows: list[Row] = []
    for score, n in distribution.counts.items():
        at_score = (by_score.get(score) for by_score in distribution.metrics.values())
        means: list[Cell] = [
            DASH if values is None else estimate_cell(values.mean) for values in at_score
        ]
        rows.append((str(score), n, *means))
    means_by_metric = (Column(name, f"Mean {name}") for name in distribution.metrics)
    return table("distribution", rows, *means_by_metric, n_sets=f"{distribution.n_sets:,}")


def normality_table(analysis: Analysis) -> Table:
    variables = {"human score": analysis.human_score} | {
        name: metric.normality for name, metric in analysis.metrics.items()
    }
    return table("normality", (_normality_row(*variable) for variable in variables.items()))


def _normality_row(name: str, result: Normality) -> Row:
    second: tuple[Cell, Cell] = (DASH, DASH)
    if result.second is not None:
        second = (number_cell(result.second.statistic), p_cell(result.second.p))
    elif result.reason is None:
        not_needed = number_cell(float("nan"), f"only needed for more than {SHAPIRO_MAX:,} values")
        second = (not_needed, not_needed)
    w, p = number_cell(result.w, result.reason), p_cell(result.p, result.reason)
    return (name, w, p, *second, result.n)
