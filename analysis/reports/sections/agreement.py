"""The report's sections on scores: how each metric goes with them, and how they are spread."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import (
    DASH,
    ends,
    mark_best,
    measured,
    number,
    of_estimate,
    of_rho,
    p_value,
    plain,
)
from hsfiq.analysis.reports.document import Chart, Column, Measured, Section, Table
from hsfiq.analysis.statistics.normality import SHAPIRO_MOST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.reports.sections.distribution import Distribution
    from hsfiq.analysis.statistics.normality import Normality

ORDINAL = (
    "Scores of a few levels are never normal, so the test rejects whatever their distribution; "
    "this is no finding. Ranks are correlated because the scores are ordinal."
)


def agreement_section(analysis: Analysis, spread: Distribution) -> Section:
    """Lay out how each metric goes with the human scores.

    Args:
        analysis: of the release.
        spread: of its scores.
    """
    return Section(
        "agreement",
        "Agreement with human scores",
        (
            spearman_table(analysis),
            _spearman_chart(analysis),
            _within_table(analysis),
            _distribution_chart(spread),
            _distribution_table(spread),
            _normality_table(analysis),
        ),
    )


def spearman_table(analysis: Analysis) -> Table:
    """CIRQRS Table 2: Spearman's correlation of each metric with the human score."""
    rows = []
    rhos = mark_best([of_rho(metric.spearman) for metric in analysis.metrics.values()])
    for (name, metric), rho in zip(analysis.metrics.items(), rhos, strict=True):
        found = metric.spearman
        p = p_value(found.p, found.reason)
        apart = Measured(found.rho, ends=found.independent_ci, reason=found.reason)
        rows.append((name, rho, p, apart, found.n, found.n_clusters))
    return Table(
        "table2_spearman",
        "Spearman correlation of human score with each metric (as CIRQRS Table 2)",
        (
            Column("metric", "Metric"),
            Column("rho", "Statistic", "spearman"),
            Column("p", "P-value", "independent"),
            Column("independent", "As if independent", "independent"),
            Column("n_sets", "Sets"),
            Column("n_participants", "Participants"),
        ),
        tuple(rows),
        "The first interval resamples whole clusters; p and the last interval take all sets for "
        "independent, which several by one person are not.",
    )


def _spearman_chart(analysis: Analysis) -> Chart:
    names = list(analysis.metrics)
    every = analysis.metrics.values()
    series = {
        "clustered interval": [of_rho(each.spearman) for each in every],
        "as if independent": [
            Measured(each.spearman.rho, ends=each.spearman.independent_ci) for each in every
        ],
        "within participants": [
            measured(each.within.mean, None, each.within.mean_ci, None) for each in every
        ],
    }

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        colours = (charts.COLOURS[0], charts.GREY, charts.COLOURS[1])
        charts.intervals(axes, names, series, colours=colours)
        charts.reference(axes, 0.0, "no agreement")
        axes.set_xlabel("Spearman's rho with the human score")
        charts.legend(figure, axes)

    return Chart(
        "spearman",
        "Correlation of each metric with human scores",
        _spearman_caption(analysis),
        "For each metric three dots with intervals: rho over all sets, the same as if sets were "
        "independent, and the mean rho within participants.",
        (charts.WIDTH, charts.height(len(names), 3, 1.3)),
        paint,
    )


def _spearman_caption(analysis: Analysis) -> str:
    known = {
        name: metric.spearman
        for name, metric in analysis.metrics.items()
        if metric.spearman.reason is None
    }
    if not known:
        return "No correlation is defined; the table says why."
    best = max(known, key=lambda name: known[name].rho)
    found = known[best]
    most = f"Of {len(known)} metrics {best} goes best" if len(known) > 1 else f"{best} goes"
    said = f"{most} with the human scores, at rho = {number(found.rho)}"
    if found.ci is None or isnan(found.ci.low):
        return f"{said}; there is no interval."
    clustered, apart = found.ci.high - found.ci.low, found.independent_ci
    said += f" {ends((found.ci.low, found.ci.high))}."
    if found.ci.low <= 0 <= found.ci.high:
        said += " The interval holds 0: whether it agrees with people at all is open."
    ratio = clustered / (apart[1] - apart[0]) if apart[1] > apart[0] else 1.0
    if ratio > 1.05:
        said += (
            f" Its interval is {ratio:.2f} times as long as if all sets were independent: the "
            "shorter one would promise too much."
        )
    return said


def _within_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            name,
            measured(own.mean, None, own.mean_ci, own.mean_reason),
            own.n_participants,
            measured(own.centred, own.n, own.centred_ci, own.centred_reason),
        )
        for name, own in ((name, metric.within) for name, metric in analysis.metrics.items())
    )
    columns = (
        Column("metric", "Metric"),
        Column("own", "Mean own rho", "within"),
        Column("n_participants", "Participants"),
        Column("centred", "Centred rho", "within"),
    )
    note = "Both leave out that some people score higher than others."
    return Table("within_participant", "Correlation within participants", columns, rows, note)


def _distribution_chart(spread: Distribution) -> Chart:
    names = list(spread.metrics)

    def paint(figure: Figure) -> None:
        panels = charts.panels(figure, 1 + len(names))
        scores = list(spread.counts)
        panels[0].bar(scores, list(spread.counts.values()), color=charts.GREY, width=0.75)
        panels[0].set(title="sets", xlabel="human score", xticks=scores)
        for place, (axes, name) in enumerate(zip(panels[1:], names, strict=True)):
            at = spread.metrics[name]
            colour = charts.COLOURS[place % len(charts.COLOURS)]
            means = [each.mean for each in at.values()]
            low, high = ([each.quartiles[end] for each in at.values()] for end in (0, 2))
            axes.vlines(list(at), low, high, color=charts.GREY, linewidth=7, alpha=0.5)
            axes.plot(list(at), [each.value for each in means], color=colour, linewidth=1)
            axes.plot(list(at), [each.value for each in means], color=colour, marker="o", ms=5)
            for score, mean in zip(at, means, strict=True):
                if mean.ci is not None:
                    axes.vlines(score, mean.ci.low, mean.ci.high, color=colour, linewidth=1.6)
            axes.set(title=charts.short(name, charts.ABOVE), xlabel="human score", xticks=scores)
            axes.grid(axis="y")

    return Chart(
        "distribution",
        "Human scores, and each metric at each of them",
        _distribution_caption(spread),
        "Bars: how many sets got each score. Then for each metric its mean at each score with an "
        "interval, over a grey bar from the lower to the upper quartile.",
        charts.panels_size(1 + len(names), 2.4),
        paint,
    )


def _distribution_caption(spread: Distribution) -> str:
    total = sum(spread.counts.values())
    if not total:
        return "There are no scores."
    top = max(spread.counts, key=lambda score: spread.counts[score])
    share = number(spread.counts[top] / total, "percent")
    said = f"Most often sets got a {top} ({share} of {total:,})."
    for name, at in spread.metrics.items():
        if len(at) > 1:
            low, high = (at[score].mean.value for score in (min(at), max(at)))
            said += (
                f" The mean of {name} goes from {number(low)} at score {min(at)} to "
                f"{number(high)} at {max(at)}."
            )
    return f"{said} Grey bars hold the middle half of the sets."


def _distribution_table(spread: Distribution) -> Table:
    total = sum(spread.counts.values())
    rows = []
    for score, n in spread.counts.items():
        at = [spread.metrics[name].get(score) for name in spread.metrics]
        means = [DASH if each is None else of_estimate(each.mean) for each in at]
        rows.append((str(score), n, *means))
    columns = (
        Column("score", "Human score"),
        Column("n_sets", "Sets"),
        *(Column(name, f"Mean {name}") for name in spread.metrics),
    )
    caption = f"Human scores of {total:,} sets (as CIRQRS Figure 9), and each metric's mean"
    return Table("distribution", caption, columns, tuple(rows))


def _normality_table(analysis: Analysis) -> Table:
    every = {"human score": analysis.human_score} | {
        name: metric.normality for name, metric in analysis.metrics.items()
    }
    columns = (
        Column("variable", "Variable"),
        Column("W", "Shapiro-Wilk W", "normality"),
        Column("p", "P-value", "normality"),
        Column("K2", "K2", "normality"),
        Column("K2_p", "P-value of K2", "normality"),
        Column("n", "Values"),
    )
    rows = tuple(_normality_row(name, each) for name, each in every.items())
    return Table("normality", "Normality", columns, rows, ORDINAL)


def _normality_row(name: str, each: Normality) -> tuple[str | int | Measured, ...]:
    second: tuple[str | Measured, ...] = (DASH, DASH)
    if each.second is not None:
        second = (plain(each.second.statistic), p_value(each.second.p, None))
    elif each.reason is None:
        unneeded = f"only needed beyond {SHAPIRO_MOST:,} values"
        second = (plain(float("nan"), unneeded), plain(float("nan"), unneeded))
    return (name, plain(each.w, each.reason), p_value(each.p, each.reason), *second, each.n)
