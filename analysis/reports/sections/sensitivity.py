"""The report's section on whether conclusions change without answers that one may doubt."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import DASH, of_estimate, plain
from hsfiq.analysis.reports.document import Chart, Column, Section, Table, undefined
from hsfiq.analysis.sensitivity.conclusions import CHANCE, STATISTICS
from hsfiq.analysis.sensitivity.jackknife import UNDEFINED_WHERE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hsfiq.analysis.reports.document import Block, Cell, Measured
    from hsfiq.analysis.sensitivity.conclusions import Statistic
    from hsfiq.analysis.sensitivity.sensitivity import Filtered, Sensitivity

METHOD: dict[Statistic, str] = {"rho": "spearman", "tie_half": "tie_half"}


def sensitivity_section(found: Sensitivity) -> Section:
    """Lay out the main figures again under each rule, and without each participant."""
    tables = [_table(found, statistic) for statistic in STATISTICS]
    blocks: tuple[Block, ...] = (_chart(found), *tables, _left_out_table(found))
    return Section("sensitivity", "Sensitivity", blocks)


def _metrics(found: Sensitivity) -> list[str]:
    base = found.rows[0].conclusions
    return [] if base is None else list(base.estimates[STATISTICS[0]])


def _cell(row: Filtered, statistic: Statistic, metric: str) -> Measured:
    if row.conclusions is None:
        return undefined(row.reason or "")
    return of_estimate(row.conclusions.estimates[statistic][metric])


def _table(found: Sensitivity, statistic: Statistic) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            row.rule,
            row.n_dropped,
            *(_cell(row, statistic, metric) for metric in _metrics(found)),
            "; ".join(row.changes) or (DASH if row.conclusions is None else "none"),
        )
        for row in found.rows
    )
    columns = (
        Column("rule", "Answers"),
        Column("dropped", "Left out"),
        *(
            Column(metric, f"{statistic} of {metric}", METHOD[statistic])
            for metric in _metrics(found)
        ),
        Column("changes", "What changes"),
    )
    note = (
        "What changes: whether an interval lies above chance, and which metric is ahead of all "
        "others, by rho or by tie_half."
    )
    caption = f"Do the conclusions change? By {statistic}"
    return Table(f"sensitivity_{statistic}", caption, columns, rows, note)


def _chart(found: Sensitivity) -> Chart:
    known = [row for row in found.rows if row.conclusions is not None]
    metrics = _metrics(found)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(STATISTICS), sharey=True)
        for axes, statistic in zip(panels, STATISTICS, strict=True):
            series = {name: [_cell(row, statistic, name) for row in known] for name in metrics}
            charts.intervals(axes, [_short(row.rule) for row in known], series)
            charts.reference(axes, CHANCE[statistic], "chance")
            axes.set_xlabel(statistic)
        charts.legend(figure, panels[0])

    return Chart(
        "sensitivity",
        "The main figures without answers that one may doubt",
        _caption(found),
        "For each way of leaving out answers, rho and tie_half of every metric with intervals.",
        (charts.WIDTH + 0.6, charts.height(len(known), len(metrics), 1.2)),
        paint,
    )


def _short(rule: str) -> str:
    """A rule in at most two lines."""
    words, lines = rule.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 26 and len(lines) < 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _caption(found: Sensitivity) -> str:
    tried = [row for row in found.rows[1:] if row.conclusions is not None]
    unknown = len(found.rows) - 1 - len(tried)
    changed = [row.rule for row in tried if row.changes]
    said = f"Of {len(tried)} ways to leave out doubtful answers, {len(changed) or 'none'} "
    said += "change" if len(changed) > 1 else "changes"
    said += f" a conclusion: {'; '.join(changed)}." if changed else " a conclusion."
    if unknown:
        said += f" {unknown} could not be tried; the table says why."
    return said


def _left_out_table(found: Sensitivity) -> Table:
    rows = []
    for statistic in STATISTICS:
        for metric, each in found.left_out.ranges[statistic].items():
            reason = UNDEFINED_WHERE if isnan(each.low) else None
            rows.append(
                (
                    statistic,
                    metric,
                    plain(each.low, reason),
                    each.low_without or DASH,
                    plain(each.high, reason),
                    each.high_without or DASH,
                )
            )
    columns = (
        Column("statistic", "Statistic"),
        Column("metric", "Metric"),
        Column("low", "Least", "left_out"),
        Column("low_without", "Without"),
        Column("high", "Greatest", "left_out"),
        Column("high_without", "Without"),
    )
    return Table("left_out", "One participant left out at a time", columns, tuple(rows))
