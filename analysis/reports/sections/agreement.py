"""The section on how well each metric correlates with the human scores."""

from __future__ import annotations

from math import isnan

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import (
    bounds_text,
    estimate_cell,
    mark_best,
    number_cell,
    number_text,
    p_cell,
)
from hsfiq.analysis.reports.document import Chart, NumberCell, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.score_distribution import ScoreDistribution
from hsfiq.analysis.reports.sections.distribution import (
    distribution_chart,
    distribution_table,
    normality_table,
)
from hsfiq.analysis.resampling.interval import NO_SPREAD
from hsfiq.analysis.statistics.correlation import Correlation


def agreement_section(analysis: Analysis, distribution: ScoreDistribution) -> Section:
    return Section(
        "agreement",
        "Agreement with human scores",
        (
            _spearman_table(analysis),
            _spearman_chart(analysis),
            _within_table(analysis),
            distribution_chart(distribution),
            distribution_table(distribution),
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
