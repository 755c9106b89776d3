"""The report's section on preference rates: every rule on the same answers."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.cells import mark_best, number, of_rate, plain, share
from hsfiq.analysis.reports.document import Chart, Column, Section, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hsfiq.analysis.analyze import Analysis
    from hsfiq.analysis.reports.document import Block
    from hsfiq.analysis.statistics.preference import PreferenceRates

RULES = {
    "ge": "ge (CIRQRS eq. 8)",
    "gt": "gt (QuRe eq. 9)",
    "ge_swapped": "ge, labels swapped",
    "gt_swapped": "gt, labels swapped",
    "symmetric": "symmetric",
    "tie_half": "tie_half",
}


def rules_section(analysis: Analysis) -> Section:
    """Lay out the preference rates by every rule, beside what knowing nothing gets."""
    blocks: list[Block] = [
        preference_table(analysis),
        _rules_chart(analysis),
        rules_table(analysis),
    ]
    if any(metric.given_tie for metric in analysis.metrics.values()):
        blocks.append(_given_tie_table(analysis))
    return Section("rules", "Preference rates, rule by rule", tuple(blocks))


def preference_table(analysis: Analysis) -> Table:
    """CIRQRS Table 3: the preference rate of each metric, as published."""
    every = analysis.metrics
    cells = mark_best([of_rate(metric.preference.ge) for metric in every.values()])
    rows = tuple(
        (name, rate, of_rate(metric.preference.base_rate))
        for (name, metric), rate in zip(every.items(), cells, strict=True)
    )
    columns = (
        Column("metric", "Metric"),
        Column("ge", "Preference rate", "ge"),
        Column("base_rate", "Base rate", "base_rate"),
    )
    return Table(
        "table3_preference_rate",
        "Preference rate of each metric (as CIRQRS Table 3)",
        columns,
        rows,
        "A rate says nothing by itself: hold it against the base rate beside it.",
    )


def base_rates(rates: PreferenceRates) -> dict[str, float]:
    """What a metric that knows nothing gets by each rule.

    Args:
        rates: of one metric.

    Returns:
        By rule, from 0 to 1; NaN where no pair can be used.
    """
    first = rates.base_rate.rate
    by_rule = {"ge": first, "gt": first, "ge_swapped": 1 - first, "gt_swapped": 1 - first}
    known = 0.5 if rates.base_rate.n else first
    return {rule: by_rule.get(rule, known) for rule in RULES}


def rules_table(analysis: Analysis) -> Table:
    """Every rule of every metric, with its base rate and its coverage."""
    rows = []
    for name, metric in analysis.metrics.items():
        rates = metric.preference
        base = base_rates(rates)
        for rule, label in RULES.items():
            rate = getattr(rates, rule)
            reason = rates.base_rate.reason
            rows.append(
                (
                    name,
                    label,
                    of_rate(rate),
                    rate.n,
                    share(rate.coverage, rate.reason),
                    plain(base[rule], reason),
                )
            )
    columns = (
        Column("metric", "Metric"),
        Column("rule", "Rule", "symmetric"),
        Column("rate", "Rate"),
        Column("pairs", "Pairs"),
        Column("coverage", "Coverage", "coverage"),
        Column("base_rate", "Base rate", "base_rate"),
    )
    return Table(
        "rules", "Every rule on the same answers", columns, tuple(rows), _left_out(analysis)
    )


def _left_out(analysis: Analysis) -> str | None:
    said = [
        f"{name}: {rates.metric_ties:,} metric ties among {rates.base_rate.n:,} pairs, "
        f"{rates.human_ties:,} human ties and {rates.missing:,} pairs without a value left out"
        for name, rates in ((name, each.preference) for name, each in analysis.metrics.items())
    ]
    return f"{'; '.join(said)}." if said else None


def _rules_chart(analysis: Analysis) -> Chart:
    every = {name: metric.preference for name, metric in analysis.metrics.items()}

    def paint(figure: Figure) -> None:
        panels = figure.subplots(max(1, len(every)), 1, sharex=True, squeeze=False)[:, 0]
        for place, (axes, (name, rates)) in enumerate(zip(panels, every.items(), strict=False)):
            _paint_rules(axes, name, rates, charts.COLOURS[place % len(charts.COLOURS)])
        panels[-1].set_xlabel("rate")
        charts.legend(figure, panels[0])

    return Chart(
        "rules",
        "The same answers by every rule",
        _rules_caption(analysis),
        "For each metric and rule a dot with its interval, and a black bar where a metric that "
        "knows nothing stands.",
        (charts.WIDTH, 0.7 + max(1, len(every)) * (0.35 + len(RULES) * 0.27)),
        paint,
    )


def _paint_rules(axes: Axes, name: str, rates: PreferenceRates, colour: str) -> None:
    cells = [of_rate(getattr(rates, rule)) for rule in RULES]
    charts.intervals(axes, list(RULES.values()), {"rate": cells}, colours=(colour,))
    axes.plot(
        list(base_rates(rates).values()),
        range(len(RULES)),
        linestyle="",
        marker="|",
        ms=13,
        mew=2.2,
        color=charts.INK,
        label="base rate: knows nothing",
    )
    axes.set_title(charts.short(name))


def _rules_caption(analysis: Analysis) -> str:
    said = []
    for name, metric in analysis.metrics.items():
        rates = metric.preference
        found = {
            label.split(" (")[0]: getattr(rates, rule).rate
            for rule, label in RULES.items()
            if not isnan(getattr(rates, rule).rate)
        }
        if not found:
            continue
        least, most = (
            min(found, key=lambda rule: found[rule]),
            max(found, key=lambda rule: found[rule]),
        )
        said.append(
            f"{name} gets from {number(found[least])} ({least}) to {number(found[most])} ({most}) "
            "by the choice of rule alone."
        )
        if not isnan(rates.symmetric.rate):
            said.append(
                f"Where it tells two sets apart ({number(rates.symmetric.coverage, 'percent')} of "
                f"the questions), people prefer the higher one in {number(rates.symmetric.rate)}; "
                f"over all pairs, ties counted half, it is {number(rates.tie_half.rate)}."
            )
    if not said:
        return "No preference rate is defined; the table says why."
    return f"{' '.join(said)} Only the distance to the black bar counts."


def _given_tie_table(analysis: Analysis) -> Table:
    rows = tuple(
        (name, other, of_rate(rate), share(rate.coverage, rate.reason))
        for name, metric in analysis.metrics.items()
        for other, rate in metric.given_tie.items()
    )
    columns = (
        Column("metric", "Metric"),
        Column("other", "Where this one ties"),
        Column("gt", "gt", "given_tie"),
        Column("coverage", "Coverage", "coverage"),
    )
    return Table(
        "given_tie", "Where another metric sees no difference (CIRQRS eq. 9)", columns, rows
    )
