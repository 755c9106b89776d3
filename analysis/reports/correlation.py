"""The sections on how metrics correlate with scores, and how scores are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hsfiq.analysis.analyze import Analysis, Categories
from hsfiq.analysis.data.metrics import bounds_of
from hsfiq.analysis.data.release import Release
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.caveats import sentence
from hsfiq.analysis.reports.document import (
    DASH,
    MANY,
    Block,
    Cell,
    Chart,
    Column,
    NumberCell,
    Row,
    Section,
    Table,
    bounds_text,
    difference_cell,
    estimate_cell,
    mark_best,
    number_cell,
    number_text,
    p_cell,
    table,
)
from hsfiq.analysis.reports.preference import NAMES
from hsfiq.analysis.resampling.bootstrap import Bootstrap, Estimate, group_means
from hsfiq.analysis.resampling.intervals import NO_SPREAD, Bounds
from hsfiq.analysis.statistics.correlation import (
    SHAPIRO_MAX,
    Correlation,
    Normality,
    WithinQuery,
    with_values,
)
from hsfiq.analysis.verdicts import Equivalence
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The distribution of the human scores, and a metric's values at each score (CIRQRS Figure 9).

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class ValuesAtScore:
    """A metric's values on the sets with one human score: mean, quartiles and median."""

    mean: Estimate
    quartiles: tuple[float, float, float]

    def to_json(self) -> dict[str, object]:
        return {**self.mean.to_json(), "quartiles": list(self.quartiles)}


@dataclass(frozen=True)
class ScoreDistribution:
    """The distribution of the human scores.

    Attributes:
        counts: the number of sets with each score, lowest score first.
        metrics: by metric and score, the metric's values; a score without values is absent.
    """

    counts: Mapping[int, int]
    metrics: Mapping[str, Mapping[int, ValuesAtScore]]

    @property
    def n_sets(self) -> int:
        return sum(self.counts.values())

    def to_json(self) -> dict[str, object]:
        return {
            "scores": {str(score): n for score, n in self.counts.items()},
            "metrics": {
                name: {str(score): values.to_json() for score, values in by_score.items()}
                for name, by_score in self.metrics.items()
            },
        }


def score_distribution(
    release: Release, values: Mapping[str, pd.Series[float]], bootstrap: Bootstrap
) -> ScoreDistribution:
    counts = release.sets["score"].value_counts().sort_index()
    return ScoreDistribution(
        counts={int(score): int(n) for score, n in zip(counts.index, counts, strict=True)},
        metrics={
            name: _by_score(with_values(release.sets, metric), bootstrap, bounds_of(name))
            for name, metric in values.items()
        },
    )


def _by_score(
    sets: pd.DataFrame, bootstrap: Bootstrap, bounds: Bounds | None
) -> dict[int, ValuesAtScore]:
    scores = sets["score"].to_numpy()
    values = sets["value"].to_numpy(np.float64)
    levels = [int(score) for score in np.unique(scores)]
    groups = np.array([str(score) for score in scores], dtype=object)
    means = group_means(sets, values, groups, [str(level) for level in levels], bootstrap, bounds)
    by_score = {}
    for level in levels:
        low, median, high = np.quantile(values[scores == level], QUARTILES)
        quartiles = (float(low), float(median), float(high))
        by_score[level] = ValuesAtScore(means[str(level)], quartiles)
    return by_score


# The section on the categories of the queries.


def categories_section(categories: Categories) -> Section:
    if categories.reason is not None:
        return Section("categories", "Categories", (f"{DASH} Undefined: {categories.reason}.",))
    rows = tuple(
        (
            category,
            metric,
            figures.n_questions,
            figures.n_participants,
            estimate_cell(rho),
            estimate_cell(figures.preference[metric].symmetric),
            estimate_cell(figures.preference[metric].tie_half),
        )
        for category, figures in categories.figures.items()
        for metric, rho in figures.spearman.items()
    )
    note = sentence(categories.note) if categories.note else None
    return Section("categories", "Categories", (table("categories", rows, note=note),))


# How the human scores and the metrics are distributed.


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
                f" The mean of {name} changes from {number_text(low)} at score {lowest} to "
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


# The section on how well each metric correlates with the human scores.


def agreement_section(analysis: Analysis, distribution: ScoreDistribution | None) -> Section:
    return Section(
        "agreement",
        "Agreement with human scores",
        (
            _spearman_table(analysis),
            _spearman_chart(analysis),
            _within_table(analysis),
            *(
                ()
                if distribution is None
                else (distribution_chart(distribution), distribution_table(distribution))
            ),
            normality_table(analysis),
        ),
    )


def _spearman_table(analysis: Analysis) -> Table:
    """CIRQRS Table 2."""
    correlations = {name: metric.spearman for name, metric in analysis.metrics.items()}
    cells = mark_best([estimate_cell(correlation) for correlation in correlations.values()])
    rows = tuple(
        (
            name,
            cell,
            p_cell(correlation.p_clustered, why_no_p(correlation)),
            NumberCell(
                correlation.rho, bounds=correlation.independent_ci, reason=correlation.reason
            ),
            number_cell(correlation.p, correlation.reason, style="p"),
            correlation.n,
            correlation.n_clusters,
        )
        for (name, correlation), cell in zip(correlations.items(), cells, strict=True)
    )
    return table("table2_spearman", rows)


def why_no_p(correlation: Correlation) -> str | None:
    """Why a correlation has no clustered p; None if it has one."""
    interval = correlation.ci.reason if correlation.ci is not None else None
    return correlation.reason or interval or NO_SPREAD


def _spearman_chart(analysis: Analysis) -> Chart:
    metrics = analysis.metrics.values()
    return charts.interval_chart(
        "spearman",
        "Correlation of each metric with human scores",
        _spearman_caption(analysis),
        "For each metric, three dots with intervals: rho over all sets, rho with an interval that "
        "assumes independent sets, and the mean of the participants' rhos.",
        rows=list(analysis.metrics),
        series={
            "clustered interval": [estimate_cell(metric.spearman) for metric in metrics],
            "assuming independence": [
                NumberCell(metric.spearman.rho, bounds=metric.spearman.independent_ci)
                for metric in metrics
            ],
            "within participants": [
                number_cell(metric.within.mean, ci=metric.within.mean_ci) for metric in metrics
            ],
        },
        x_label="Spearman's rho with the human score",
        reference=(0.0, "no agreement"),
        colours=(charts.COLOURS[0], charts.GREY, charts.COLOURS[1]),
        margin=1.3,
    )


def _spearman_caption(analysis: Analysis) -> str:
    defined = {
        name: metric.spearman
        for name, metric in analysis.metrics.items()
        if metric.spearman.reason is None
    }
    if not defined:
        return "No correlation is defined; the table gives the reasons."
    best = max(defined, key=lambda name: defined[name].rho)
    rho, ci = defined[best].rho, defined[best].ci
    subject = (
        f"Of {len(defined)} metrics, {best} correlates best"
        if len(defined) > 1
        else f"{best} correlates"
    )
    caption = f"{subject} with the human scores: rho = {number_text(rho)}"
    if ci is None or isnan(ci.low):
        return f"{caption}, without an interval."
    caption += f" {bounds_text((ci.low, ci.high))}."
    if ci.low <= 0 <= ci.high:
        caption += " The interval contains 0, so agreement with people is not established."
    low, high = defined[best].independent_ci
    ratio = (ci.high - ci.low) / (high - low) if high > low else 1.0
    if ratio > 1.05:
        caption += (
            f" The interval is {ratio:.2f} times as long as the one that assumes independent "
            "sets, which overstates the precision."
        )
    return caption


def _within_table(analysis: Analysis) -> Table:
    rows = (
        (
            name,
            number_cell(within.mean, within.mean_reason, ci=within.mean_ci),
            within.n_participants,
            number_cell(within.centred, within.centred_reason, n=within.n, ci=within.centred_ci),
        )
        for name, within in ((name, metric.within) for name, metric in analysis.metrics.items())
    )
    return table("within_participant", rows)


# The section on whether systems, and metrics, are equivalent.

NOTHING = f"{DASH} Undefined: there are neither two named systems nor two metrics."
VERDICTS = {True: "equivalent", False: "not shown", None: DASH}


def equivalence_section(tested: Sequence[Equivalence]) -> Section:
    title = "Equivalence"
    if not tested:
        return Section("equivalence", title, (NOTHING,))
    rows: list[Row] = [
        (
            each.first,
            each.second,
            NAMES.get(each.statistic, each.statistic),
            number_cell(each.difference, each.reason, style="signed"),
            number_cell(each.low, each.reason, style="signed"),
            number_cell(each.high, each.reason, style="signed"),
            number_cell(each.p, each.reason, style="p"),
            p_cell(each.p_holm, each.reason),
            VERDICTS[each.is_equivalent],
        )
        for each in tested
    ]
    margin = f"{tested[0].margin:g}"
    return Section("equivalence", title, (table("equivalence", rows, margin=margin),))


# The section on correlations within queries.

ABOUT = (
    "The mean, over queries, of the rank correlation between metric and human score among the sets "
    "of one query. With two sets it is 1 or -1: it only shows which of the two is better, and "
    "pairs with a tie do not count."
)


def within_query_section(within: WithinQuery) -> Section:
    correlations = (
        (
            metric,
            estimate_cell(each.spearman),
            estimate_cell(each.kendall),
            each.spearman.n,
            each.n_groups,
            number_cell(each.mean_sets, each.reason, style="short"),
        )
        for metric, each in within.metrics.items()
    )
    blocks: list[Block] = [ABOUT, table("within_query", correlations, unit=within.unit)]
    if within.differences:
        rows = (
            (
                each.metric,
                each.other,
                difference_cell(each.spearman),
                number_cell(each.spearman.p, each.spearman.reason, style="p"),
                p_cell(each.spearman.p_holm, each.spearman.reason),
                number_cell(each.cells.p, each.cells.reason, style="p"),
                each.spearman.n,
            )
            for each in within.differences
        )
        blocks.append(table("within_query_differences", rows))
    return Section("within-query", "Within queries", tuple(blocks))
