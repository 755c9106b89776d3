"""The section on whether the conclusions change without questionable answers."""

from __future__ import annotations

import textwrap
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import DASH, estimate_cell, number_cell
from hsfiq.analysis.reports.document import Block, Chart, Column, NumberCell, Row, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.sensitivity.conclusions import CHANCE, STATISTICS, Statistic
from hsfiq.analysis.sensitivity.jackknife import UNDEFINED_REASON
from hsfiq.analysis.sensitivity.sensitivity import FilteredConclusions, Sensitivity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS: dict[Statistic, str] = {"rho": "spearman", "tie_half": "tie_half"}


def sensitivity_section(sensitivity: Sensitivity) -> Section:
    """The main figures again under each rule, and without each participant."""
    tables = (_table(sensitivity, statistic) for statistic in STATISTICS)
    blocks: tuple[Block, ...] = (_chart(sensitivity), *tables, _leave_one_out_table(sensitivity))
    return Section("sensitivity", "Sensitivity", blocks)


def _metrics(sensitivity: Sensitivity) -> list[str]:
    base = sensitivity.rows[0].conclusions
    return [] if base is None else list(base.estimates[STATISTICS[0]])


def _cell(row: FilteredConclusions, statistic: Statistic, metric: str) -> NumberCell:
    if row.conclusions is None:
        return number_cell(float("nan"), row.reason or "")
    return estimate_cell(row.conclusions.estimates[statistic][metric])


def _table(sensitivity: Sensitivity, statistic: Statistic) -> Table:
    metrics = _metrics(sensitivity)
    rows: tuple[Row, ...] = tuple(
        (
            row.rule,
            number_cell(float("nan"), row.reason) if row.n_dropped is None else row.n_dropped,
            *(_cell(row, statistic, metric) for metric in metrics),
            "; ".join(row.changes) or (DASH if row.conclusions is None else "none"),
        )
        for row in sensitivity.rows
    )
    columns = (Column(name, f"{statistic} of {name}", METHODS[statistic]) for name in metrics)
    changes = Column("changes", "Changed conclusions")
    return table(f"sensitivity_{statistic}", rows, *columns, changes)


def _chart(sensitivity: Sensitivity) -> Chart:
    defined = [row for row in sensitivity.rows if row.conclusions is not None]
    metrics = _metrics(sensitivity)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(1, len(STATISTICS), sharey=True)
        for axes, statistic in zip(panels, STATISTICS, strict=True):
            series = {name: [_cell(row, statistic, name) for row in defined] for name in metrics}
            charts.draw_intervals(axes, [_two_lines(row.rule) for row in defined], series)
            charts.draw_reference(axes, CHANCE[statistic], "chance")
            axes.set_xlabel(statistic)
        charts.draw_legend(figure, panels[0])

    return Chart(
        "sensitivity",
        "The main figures without questionable answers",
        _caption(sensitivity),
        "For each way of excluding answers, rho and tie_half of every metric with intervals.",
        (charts.WIDTH + 0.6, charts.intervals_height(len(defined), len(metrics), 1.2)),
        paint,
        is_wide=True,
        is_empty=not any(
            not isnan(_cell(row, statistic, name).value)
            for row in defined
            for statistic in STATISTICS
            for name in metrics
        ),
    )


def _two_lines(rule: str) -> str:
    first, *rest = textwrap.wrap(rule, 27, break_long_words=False, break_on_hyphens=False)
    return "\n".join([first, " ".join(rest)] if rest else [first])


def _caption(sensitivity: Sensitivity) -> str:
    applied = [row for row in sensitivity.rows[1:] if row.conclusions is not None]
    not_applied = len(sensitivity.rows) - 1 - len(applied)
    changing = [row.rule for row in applied if row.changes]
    caption = f"Of {len(applied)} ways to exclude questionable answers, {len(changing) or 'none'} "
    caption += "change a conclusion" if len(changing) > 1 else "changes a conclusion"
    caption += f": {'; '.join(changing)}." if changing else "."
    if not_applied:
        needs = "it needs" if not_applied == 1 else "they need"
        caption += f" {not_applied} more could not be tried, as what {needs} was not recorded."
    return caption


def _leave_one_out_table(sensitivity: Sensitivity) -> Table:
    rows: list[Row] = []
    for statistic in STATISTICS:
        for metric, bounds in sensitivity.jackknife.ranges[statistic].items():
            reason = UNDEFINED_REASON if isnan(bounds.low) else None
            low, high = (number_cell(bound, reason) for bound in (bounds.low, bounds.high))
            without = (bounds.low_without or DASH, bounds.high_without or DASH)
            rows.append((statistic, metric, low, without[0], high, without[1]))
    return table("left_out", rows)
