"""The sections on preference rates and accuracy, and on the comparisons of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.analyze import Analysis
from hsfiq.analysis.reports import charts
from hsfiq.analysis.reports.document import (
    MANY,
    MINUS,
    Block,
    Chart,
    Row,
    Section,
    Table,
    difference_cell,
    estimate_cell,
    mark_best,
    number_cell,
    number_text,
    p_cell,
    table,
)
from hsfiq.analysis.resampling.permutation import Difference
from hsfiq.analysis.statistics.accuracy import BINS, AccuracyByMargin
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison
from hsfiq.analysis.statistics.preference import (
    RULES,
    SOURCES,
    PreferenceRates,
    Rate,
    base_rates,
    rates_by_rule,
)
from hsfiq.text import count_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The section on pairwise accuracy with ties, and on accuracy by margin.


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
        "Is a metric correct more often if the two sets differ more?",
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


# The differences between many metrics as a matrix, where a row for each two would be too long.

COLOURS = "PuOr"
"""Purple and orange, which colour-blind readers can distinguish."""
CELL_HEIGHT = 0.3  # inches
LABEL_LENGTH = 16
SIGNIFICANT = 0.05
DARK = 0.55
"""At this share of the largest difference or more, a cell is dark and its text white."""


def matrix_chart(comparisons: Sequence[Comparison]) -> Chart:
    """Each cell: the row's metric minus the column's; rho below the diagonal, tie_half above."""
    names = by_wins(comparisons)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        _paint(axes, names, comparisons)

    differences = [(each.spearman, each.tie_half) for each in comparisons]
    return Chart(
        "comparisons",
        "Which metric agrees better with people",
        _caption(names, comparisons),
        "A matrix with a row and a column for each metric, best first. Below the diagonal: rho of "
        "the row's metric minus that of the column's; above it: the same for tie_half. Bold "
        "figures have a Holm-adjusted p-value below .05.",
        (charts.WIDTH, 1.1 + CELL_HEIGHT * len(names)),
        paint,
        is_wide=True,
        is_empty=all(isnan(each.difference) for pair in differences for each in pair),
    )


def by_wins(comparisons: Sequence[Comparison]) -> list[str]:
    """The metrics by the number of others with a lower rho, in decreasing order."""
    wins: dict[str, int] = {}
    for each in comparisons:
        for name in (each.metric, each.other):
            wins.setdefault(name, 0)
        wins[each.metric] += each.spearman.difference > 0
        wins[each.other] += each.spearman.difference < 0
    return sorted(wins, key=lambda name: -wins[name])


def _paint(axes: Axes, names: Sequence[str], comparisons: Sequence[Comparison]) -> None:
    place = {name: number for number, name in enumerate(names)}
    cells: dict[tuple[int, int], tuple[float, Difference]] = {}
    for each in comparisons:
        first, second = place[each.metric], place[each.other]
        row, column = max(first, second), min(first, second)
        sign = 1 if row == first else -1
        cells[row, column] = (sign * each.spearman.difference, each.spearman)
        cells[column, row] = (-sign * each.tie_half.difference, each.tie_half)
    values = [[cells[row, column][0] if row != column else float("nan")
               for column in place.values()] for row in place.values()]  # fmt: skip
    defined = [abs(value) for value, _ in cells.values() if not isnan(value)]
    largest = max(defined, default=0.0) or 1.0
    axes.pcolormesh(values, cmap=COLOURS, vmin=-largest, vmax=largest, edgecolors="white")
    axes.invert_yaxis()
    for (row, column), (value, difference) in cells.items():
        if not isnan(value):
            text = f"{value:+.2f}".replace("0.", ".", 1).replace("-", MINUS)
            axes.text(
                column + 0.5,
                row + 0.5,
                text,
                ha="center",
                va="center",
                color="white" if abs(value) > DARK * largest else charts.INK,
                weight="bold" if difference.p_holm < SIGNIFICANT else "normal",
            )
    labels = [charts.shorten(name, LABEL_LENGTH) for name in names]
    middles = [place + 0.5 for place in range(len(names))]
    axes.set_xticks(middles, labels, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(middles, labels)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("row minus column; rho below the diagonal, tie_half above; bold: significant")


def _caption(names: Sequence[str], comparisons: Sequence[Comparison]) -> str:
    n = len(comparisons)
    different = [each for each in comparisons if each.spearman.p_holm < SIGNIFICANT]
    n_tie_half = sum(each.tie_half.p_holm < SIGNIFICANT for each in comparisons)
    caption = (
        f"The rhos of {len(different):,} of {n:,} pairs of metrics differ significantly (Holm), "
        f"and the tie_half of {n_tie_half:,}. "
    )
    best = names[0]
    beaten = sum(_beats(each, best) for each in comparisons)
    caption += f"{best} has the highest rho, significantly higher than {beaten} of "
    return f"{caption}{len(names) - 1} others."


def _beats(comparison: Comparison, name: str) -> bool:
    """Whether a metric's rho is significantly higher than that of the other."""
    difference = comparison.spearman.difference
    if comparison.spearman.p_holm >= SIGNIFICANT or isnan(difference):
        return False
    return name == (comparison.metric if difference > 0 else comparison.other)


# The section that compares metrics with each other.

MANY_PAIRS = 6
"""With more pairs of metrics than this, the chart is a matrix."""
NAMES = {"spearman": "Spearman's rho", "tie_half": "tie_half", "symmetric": "symmetric rate"}


def comparison_section(comparisons: Sequence[Comparison]) -> Section:
    """Which metric agrees better with people, on the same sets and pairs."""
    title = "Differences between metrics"
    if not comparisons:
        return Section("comparisons", title, ("A comparison needs at least two metrics.",))
    chart = matrix_chart if len(comparisons) > MANY_PAIRS else _chart
    return Section("comparisons", title, (chart(comparisons), _table(comparisons)))


def _table(comparisons: Sequence[Comparison]) -> Table:
    differences = (
        (comparison, name, getattr(comparison, name))
        for comparison in comparisons
        for name in STATISTICS
    )
    rows = (
        (
            comparison.metric,
            comparison.other,
            NAMES[name],
            difference_cell(difference),
            number_cell(difference.p, difference.reason, style="p"),
            p_cell(difference.p_holm, difference.reason),
            difference.n,
        )
        for comparison, name, difference in differences
    )
    return table("comparisons", rows)


def _chart(comparisons: Sequence[Comparison]) -> Chart:
    return charts.interval_chart(
        "comparisons",
        "Which metric agrees better with people",
        " ".join(_sentence(comparison) for comparison in comparisons),
        "For every two metrics, three dots with paired intervals: the differences in rho, in "
        "tie_half and in the symmetric rate, beside a line at no difference.",
        rows=[f"{comparison.metric}\nminus {comparison.other}" for comparison in comparisons],
        series={
            NAMES[statistic]: [
                difference_cell(getattr(comparison, statistic)) for comparison in comparisons
            ]
            for statistic in STATISTICS
        },
        x_label="difference (paired)",
        reference=(0.0, "no difference"),
    )


def _sentence(comparison: Comparison) -> str:
    rho = comparison.spearman
    better, worse = comparison.metric, comparison.other
    if isnan(rho.difference) or isnan(rho.p_holm):
        return f"{better} and {worse} cannot be compared by rho."
    p = "< 0.001" if rho.p_holm < 0.001 else f"= {number_text(rho.p_holm, 'p')}"
    if rho.p_holm >= 0.05:
        return f"The rhos of {better} and {worse} do not differ significantly (Holm p {p})."
    if rho.difference < 0:
        better, worse = worse, better
    return (
        f"The rho of {better} is higher than that of {worse} by "
        f"{number_text(abs(rho.difference))} (Holm p {p})."
    )


# The section on preference rates: every rule applied to the same answers.

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
        "Every rule applied to the same answers",
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
