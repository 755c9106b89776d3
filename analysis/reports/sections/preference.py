"""The section on preference rates: every rule applied to the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import estimate_cell, mark_best, number_cell, number_text
from hsfiq.analysis.reports.document import MANY, Block, Chart, Section, Table
from hsfiq.analysis.reports.layout import table
from hsfiq.analysis.reports.rules import RULES, SOURCES, base_rates, rates_by_rule
from hsfiq.analysis.statistics.preference import PreferenceRates, Rate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {rule: f"{label}{SOURCES.get(rule, '')}" for rule, label in RULES.items()}

RULES_PER_ROW = 3  # of the panels by rule


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
    """A panel for each metric, or for many metrics one for each rule."""
    n_panels = max(1, len(rates))
    is_by_rule = len(rates) > MANY
    height = 0.7 + n_panels * (0.35 + len(RULES) * 0.27)
    if is_by_rule:
        height = 0.9 + ceil(len(RULES) / RULES_PER_ROW) * (0.35 + len(rates) * 0.2)
    return Chart(
        "rules",
        "The same answers by every rule",
        _rules_caption(rates),
        "For each metric and rule, a dot with its interval, and a black bar at the rate of an "
        "uninformative metric.",
        (charts.WIDTH, height),
        lambda figure: (_paint_by_rule if is_by_rule else _paint_by_metric)(figure, rates),
        is_wide=True,
        is_empty=all(isnan(rate.rate) for each in rates.values() for rate in _all_rates(each)),
    )


def _all_rates(rates: PreferenceRates) -> list[Rate]:
    return list(rates_by_rule(rates).values())


def _paint_by_metric(figure: Figure, rates: Mapping[str, PreferenceRates]) -> None:
    panels = figure.subplots(max(1, len(rates)), 1, sharex=True, squeeze=False)[:, 0]
    for index, (axes, (name, metric)) in enumerate(zip(panels, rates.items(), strict=False)):
        cells = [estimate_cell(rate) for rate in _all_rates(metric)]
        colours = (charts.style_of_series(index).colour,)
        charts.draw_intervals(axes, list(LABELS.values()), {"rate": cells}, colours=colours)
        _paint_base_rates(axes, list(base_rates(metric).values()))
        axes.set_title(charts.shorten(name))
    panels[-1].set_xlabel("rate")
    charts.draw_legend(figure, panels[0])


def _paint_by_rule(figure: Figure, rates: Mapping[str, PreferenceRates]) -> None:
    rows = ceil(len(RULES) / RULES_PER_ROW)
    panels = figure.subplots(rows, RULES_PER_ROW, sharex=True, sharey=True).flat
    for axes, rule in zip(panels, RULES, strict=True):
        cells = [estimate_cell(rates_by_rule(metric)[rule]) for metric in rates.values()]
        charts.draw_intervals(axes, list(rates), {"rate": cells})
        _paint_base_rates(axes, [base_rates(metric)[rule] for metric in rates.values()], size=8)
        axes.set_title(RULES[rule])
        axes.set_xlabel("rate")
        axes.label_outer()
    charts.draw_legend(figure, panels[0])


def _paint_base_rates(axes: Axes, values: Sequence[float], size: float = 13) -> None:
    axes.plot(
        values,
        range(len(values)),
        linestyle="",
        marker="|",
        ms=size,
        mew=2.2,
        color=charts.INK,
        label="base rate (uninformative metric)",
    )


def _rules_caption(rates: Mapping[str, PreferenceRates]) -> str:
    if len(rates) > MANY:
        return _many_rules_caption(rates)
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


def _many_rules_caption(rates: Mapping[str, PreferenceRates]) -> str:
    """The metric whose rate depends most on the rule, and the best by the symmetric rate."""
    spans = {}
    for name, metric in rates.items():
        defined = [rate.rate for rate in _all_rates(metric) if not isnan(rate.rate)]
        if defined:
            spans[name] = (min(defined), max(defined))
    best = {name: each.symmetric.rate for name, each in rates.items() if each.symmetric.n}
    if not spans or not best:
        return "No preference rate is defined for most metrics; the table gives the reasons."
    widest = max(spans, key=lambda name: spans[name][1] - spans[name][0])
    low, high = map(number_text, spans[widest])
    first = max(best, key=lambda name: best[name])
    return (
        f"Depending only on the rule, the rate of {widest} ranges from {low} to {high}. Where its "
        f"values differ, {first} agrees most often with people: at a rate of "
        f"{number_text(best[first])}. Only the distance from the black bar is informative."
    )


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
