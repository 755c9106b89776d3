"""The section on preference rates: every rule applied to the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import estimate_cell, mark_best, number_cell, number_text
from hsfiq.analysis.reports.document import Block, Chart, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.rules import RULES, SOURCES, base_rates, rates_by_rule
from hsfiq.analysis.statistics.preference import PreferenceRates

LABELS = {rule: f"{label}{SOURCES.get(rule, '')}" for rule, label in RULES.items()}


def preference_section(analysis: Analysis) -> Section:
    rates = {name: metric.preference for name, metric in analysis.metrics.items()}
    blocks: list[Block] = [_preference_table(rates), _rules_chart(rates), _rules_table(rates)]
    if any(metric.given_tie for metric in analysis.metrics.values()):
        blocks.append(_given_tie_table(analysis))
    return Section("rules", "Preference rates by rule", tuple(blocks))


def _preference_table(rates: Mapping[str, PreferenceRates]) -> Table:
    """CIRQRS Table 3."""
    cells = mark_best([estimate_cell(metric.ge) for metric in rates.values()])
    rows = tuple(
        (name, cell, estimate_cell(metric.base_rate))
        for (name, metric), cell in zip(rates.items(), cells, strict=True)
    )
    return table("table3_preference_rate", rows)


def _rules_table(rates: Mapping[str, PreferenceRates]) -> Table:
    rows = tuple(
        (
            name,
            LABELS[rule],
            estimate_cell(rate),
            rate.n,
            number_cell(rate.coverage, rate.reason, style="percent"),
            number_cell(base_rates(metric)[rule], metric.base_rate.reason),
        )
        for name, metric in rates.items()
        for rule, rate in rates_by_rule(metric).items()
    )
    counts = "; ".join(
        f"{name}: {count_text(metric.metric_ties, 'metric tie')} among "
        f"{count_text(metric.base_rate.n, 'pair')}; excluded: "
        f"{count_text(metric.human_ties, 'human tie')} and {count_text(metric.missing, 'pair')} "
        "without a value"
        for name, metric in rates.items()
    )
    note = f"{counts}." if counts else None
    return table("rules", rows, note=note)


def _rules_chart(rates: Mapping[str, PreferenceRates]) -> Chart:
    n_panels = max(1, len(rates))

    def paint(figure: Figure) -> None:
        panels = figure.subplots(n_panels, 1, sharex=True, squeeze=False)[:, 0]
        for index, (axes, (name, metric)) in enumerate(zip(panels, rates.items(), strict=False)):
            _paint_rules(axes, metric, charts.COLOURS[index % len(charts.COLOURS)])
            axes.set_title(charts.shorten(name))
        panels[-1].set_xlabel("rate")
        charts.draw_legend(figure, panels[0])

    return Chart(
        "rules",
        "The same answers by every rule",
        _rules_caption(rates),
        "For each metric and rule, a dot with its interval, and a black bar at the rate of an "
        "uninformative metric.",
        (charts.WIDTH, 0.7 + n_panels * (0.35 + len(RULES) * 0.27)),
        paint,
    )


def _paint_rules(axes: Axes, rates: PreferenceRates, colour: str) -> None:
    cells = [estimate_cell(rate) for rate in rates_by_rule(rates).values()]
    charts.draw_intervals(axes, list(LABELS.values()), {"rate": cells}, colours=(colour,))
    axes.plot(
        list(base_rates(rates).values()),
        range(len(RULES)),
        linestyle="",
        marker="|",
        ms=13,
        mew=2.2,
        color=charts.INK,
        label="base rate (uninformative metric)",
    )


def _rules_caption(rates: Mapping[str, PreferenceRates]) -> str:
    sentences = []
    for name, metric in rates.items():
        defined = {
            RULES[rule]: rate.rate
            for rule, rate in rates_by_rule(metric).items()
            if not isnan(rate.rate)
        }
        if not defined:
            continue
        lowest, highest = (pick(defined, key=lambda rule: defined[rule]) for pick in (min, max))
        sentences.append(
            f"Depending only on the rule, the rate of {name} ranges from "
            f"{number_text(defined[lowest])} ({lowest}) to {number_text(defined[highest])} "
            f"({highest})."
        )
        symmetric = metric.symmetric
        if not isnan(symmetric.rate):
            sentences.append(
                f"Without metric ties ({number_text(symmetric.coverage, 'percent')} of the "
                "questions), people prefer the set with the higher value at a rate of "
                f"{number_text(symmetric.rate)}; over all pairs, with ties counted as half, the "
                f"rate is {number_text(metric.tie_half.rate)}."
            )
    if not sentences:
        return "No preference rate is defined; the table gives the reasons."
    return f"{' '.join(sentences)} Only the distance from the black bar is informative."


def _given_tie_table(analysis: Analysis) -> Table:
    rows = tuple(
        (
            name,
            other,
            estimate_cell(rate),
            number_cell(rate.coverage, rate.reason, style="percent"),
            number_cell(rate.base_rate, rate.reason),
        )
        for name, metric in analysis.metrics.items()
        for other, rate in metric.given_tie.items()
    )
    return table("given_tie", rows)
