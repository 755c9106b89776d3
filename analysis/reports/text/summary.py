"""An analysis as plain text: the release, each metric, and the comparisons of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from math import isnan
from textwrap import TextWrapper

from hsfiq.analysis.analyze import Analysis, MetricAnalysis
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.rules import RULES, base_rates, rates_by_rule
from hsfiq.analysis.reports.text.answer_model import answer_model_lines
from hsfiq.analysis.reports.text.details import details_text
from hsfiq.analysis.reports.text.format import folded, interval_text, line, p_text
from hsfiq.analysis.reports.text.judges import judges_lines
from hsfiq.analysis.reports.text.systems import metric_ranks_lines
from hsfiq.analysis.reports.text.within_query import equivalence_lines
from hsfiq.analysis.resampling.interval import ConfidenceInterval
from hsfiq.analysis.statistics.compare import STATISTICS, Comparison
from hsfiq.analysis.statistics.correlation import WithinParticipant
from hsfiq.analysis.statistics.difference import Difference
from hsfiq.analysis.statistics.margin import AccuracyByMargin
from hsfiq.analysis.statistics.normality import Normality
from hsfiq.analysis.statistics.pairwise import PairwiseAccuracy
from hsfiq.analysis.statistics.preference import Rate

FOOTNOTE = (
    (files("hsfiq.analysis.reports.text") / "footnote.txt").read_text(encoding="utf-8").rstrip()
)
RULE_ORDER = ("ge", "gt", "symmetric", "tie_half", "ge_swapped", "gt_swapped")
N_EXAMPLES = 3  # sets without a value; the JSON names more
NOTE = TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def analysis_text(analysis: Analysis) -> str:
    """Lines of at most 100 characters (unless a word is longer), without a final newline."""
    blocks = [
        _release(analysis),
        *(_metric(name, metric) for name, metric in analysis.metrics.items()),
        *(_comparison(comparison) for comparison in analysis.comparisons),
    ]
    if analysis.comparisons:
        blocks.append(metric_ranks_lines(analysis.metric_ranks))
    if analysis.judges:
        blocks.append(judges_lines(analysis.judges))
    paragraphs = ["\n".join(block) for block in blocks]
    if analysis.details is not None:
        paragraphs.append(details_text(analysis.details))
    if analysis.equivalences is not None:
        paragraphs.append("\n".join(equivalence_lines(analysis.equivalences)))
    if analysis.answer_model is not None:
        paragraphs.append("\n".join(answer_model_lines(analysis.answer_model)))
    if analysis.metrics:
        paragraphs.append(FOOTNOTE)
    return "\n".join(map(folded, "\n\n".join(paragraphs).split("\n")))


def _release(analysis: Analysis) -> Iterator[str]:
    summary, bias = analysis.release, analysis.position_bias
    yield (
        f"{summary.name} {summary.version} ({summary.kind}, study {summary.study}): "
        f"{count_text(summary.n_questions, 'question')}, {count_text(summary.n_sets, 'set')}, "
        f"{count_text(summary.n_participants, 'participant')}"
    )
    if summary.simulated:
        yield "SIMULATED: these answers come from simulated annotators, not from people."
    if summary.taken is not None:
        yield summary.taken
    for note in analysis.notes:
        yield from NOTE.wrap(f"NOTE: {note}")
    excluded = f", {count_text(bias.human_ties, 'human tie')} excluded" if bias.human_ties else ""
    if bias.reason:
        yield line("position bias", f"undefined: {bias.reason}{excluded}")
    else:
        rate = f"P(set 1 preferred) = {bias.rate:.4f} {interval_text(bias.ci)}, n = {bias.n:,}"
        yield line("position bias", f"{rate}{excluded}")
        yield line("", f"binomial {p_text(bias.p)}, sign-flip test {p_text(bias.p_clustered)}")
    yield from _intervals(bias.ci)
    if analysis.shared_triplets.n_shared:
        yield line("", analysis.shared_triplets.clause)
    yield from _normality("human score", analysis.human_score)


def _intervals(interval: ConfidenceInterval | None) -> Iterator[str]:
    """How all intervals were computed, and their limits."""
    if interval is None:
        return
    yield line(
        "intervals",
        f"{interval.level:.0%}, {interval.method}; unit: {interval.unit}, "
        f"{count_text(interval.n_resamples, 'resample')}",
    )
    if interval.note:
        yield line("", interval.note)
    if interval.reason:
        yield line("", f"undefined: {interval.reason}")


def _metric(name: str, metric: MetricAnalysis) -> Iterator[str]:
    yield name
    if metric.missing.n:
        examples = ", ".join(metric.missing.first[:N_EXAMPLES])
        more = ", ..." if metric.missing.n > N_EXAMPLES else ""
        yield line("  no value for", f"{count_text(metric.missing.n, 'set')}: {examples}{more}")
    yield from _normality("  normality", metric.normality)
    rho = metric.spearman
    if rho.reason:
        yield line("  Spearman", f"undefined: {rho.reason}")
    else:
        n = f"{count_text(rho.n, 'set')} of {count_text(rho.n_clusters, 'participant')}"
        yield line("  Spearman", f"rho = {rho.rho:.4f} {interval_text(rho.ci)}, n = {n}")
        low, high = rho.independent_ci
        if not isnan(rho.p_clustered):
            yield line("", f"clustered {p_text(rho.p_clustered)}")
        yield line("", f"assuming independent sets: [{low:.4f}, {high:.4f}], {p_text(rho.p)}")
    yield from _within(metric.within)
    yield from _preference(metric)
    for human, accuracy in metric.pairwise.items():
        yield _accuracy(f"acc_eq, by {human}", accuracy)
    yield _margin("|m| difference", metric.margins.by_metric)
    yield _margin("|score| difference", metric.margins.by_score)


def _normality(label: str, normality: Normality) -> Iterator[str]:
    if normality.reason:
        yield line(label, f"undefined: {normality.reason}")
    else:
        p = p_text(normality.p)
        yield line(label, f"Shapiro-Wilk W = {normality.w:.4f}, {p}, n = {normality.n:,}")
    second = normality.second
    if second is not None:
        result = f"{second.test} = {second.statistic:.1f}, {p_text(second.p)}"
        yield line("", f"its p is approximate beyond N = 5,000; {result}")


def _within(within: WithinParticipant) -> Iterator[str]:
    if not within.mean_reason:
        n = count_text(within.n_participants, "participant")
        rho = f"{within.mean:.4f} {interval_text(within.mean_ci)}"
        yield line("  by participant", f"mean rho = {rho} of {n}")
    if not within.centred_reason:
        rho = f"{within.centred:.4f} {interval_text(within.centred_ci)}"
        yield line("", f"centred rho = {rho}")


def _preference(metric: MetricAnalysis) -> Iterator[str]:
    rates = metric.preference
    yield line(
        "  pairs",
        f"{rates.base_rate.n:,} used ({count_text(rates.metric_ties, 'metric tie')}); excluded: "
        f"{count_text(rates.human_ties, 'human tie')}, {rates.missing:,} without a value",
    )
    yield (
        f"  {'preference rate':<28}{'rate':>8}{'interval':>20}{'n':>9}{'coverage':>10}"
        f"{'base rate':>11}"
    )
    by_rule, base = rates_by_rule(rates), base_rates(rates)
    for rule in RULE_ORDER:
        yield _rate(RULES[rule], by_rule[rule], f"{base[rule]:.4f}")
    for other, rate in metric.given_tie.items():
        yield _rate(f"gt where {other} ties", rate, f"{rate.base_rate:.4f}")


def _rate(label: str, rate: Rate, base: str) -> str:
    if rate.reason:
        return f"    {label:<26}  undefined: {rate.reason}"
    figures = f"{rate.rate:>8.4f}{interval_text(rate.ci):>20}{rate.n:>9,}{rate.coverage:>10.1%}"
    return f"    {label:<26}{figures}{base:>11}".rstrip()


def _accuracy(label: str, accuracy: PairwiseAccuracy) -> str:
    if accuracy.reason:
        return f"    {label:<26}  undefined: {accuracy.reason}"
    figures = f"{accuracy.accuracy:>8.4f}{interval_text(accuracy.ci):>20}{accuracy.n:>9,}"
    return f"    {label:<26}{figures}{'':>10}{accuracy.base_rate:>11.4f}"


def _margin(label: str, margin: AccuracyByMargin) -> str:
    if margin.reason:
        return f"    by {label:<23}  undefined: {margin.reason}"
    bins = " ".join(f"{margin_bin.accuracy:.2f}" for margin_bin in margin.bins)
    trend = "undefined" if margin.trend.reason else f"{margin.trend.rho:+.2f}"
    return f"    by {label:<23}  {bins}; trend {trend}"


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.metric} minus {comparison.other}"
    for name in STATISTICS:
        result: Difference = getattr(comparison, name)
        if isnan(result.difference):
            yield f"  {name:<15}undefined: {result.reason}"
            continue
        p = f"{p_text(result.p)}, Holm {p_text(result.p_holm)}"
        p = "p undefined" if isnan(result.p) else p
        yield (
            f"  {name:<15}{result.difference:+.4f} {interval_text(result.ci)}, {p}, "
            f"n = {result.n:,}"
        )
