"""An analysis as plain text, for a person at a terminal. Figures are rounded here and only here."""

from __future__ import annotations

from math import isnan
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from hsfiq.analysis.reports.details_table import details_to_table
from hsfiq.analysis.statistics.compare import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.analysis.analyze import Analysis, MetricAnalysis
    from hsfiq.analysis.resampling.interval import Interval
    from hsfiq.analysis.statistics.compare import Comparison, Difference
    from hsfiq.analysis.statistics.margin import AccuracyByMargin
    from hsfiq.analysis.statistics.normality import Normality
    from hsfiq.analysis.statistics.pairwise import PairwiseAccuracy
    from hsfiq.analysis.statistics.preference import PreferenceRates, Rate
    from hsfiq.analysis.statistics.within import WithinParticipant

FOOTNOTE = """\
ge: P(set 1 preferred | m(set 1) >= m(set 2)), CIRQRS eq. 8; gt: the same with >, QuRe eq. 9.
  Both look at set 1 only. A tie of the metric fulfils >= either way round, so each tie enters ge
  twice, as it stands and with the labels swapped, and draws it towards the base rate.
base rate: what a metric that knows nothing gets: P(set 1 preferred) for ge and gt, P(set 2
  preferred) with the labels swapped, one half for the others. A rate near it says nothing.
symmetric: of the pairs with m different, the share where the higher is preferred.
tie_half: of all pairs, the same with metric ties counted half.
gt where another metric ties: CIRQRS eq. 9.
coverage: n / all questions analysed. Human ties are left out.
acc_eq: pairwise accuracy with ties on both sides (Deutsch et al. 2023), epsilon chosen on other
  participants; its base rate is the share of human ties, which a metric that always ties gets.
  Where people cannot tie, every tie of the metric counts as wrong.
by difference: of the pairs with m different, the share where the higher is preferred, from the
  smallest difference to the largest; trend: Spearman's rho of the difference and being right.
Holm p: of a permutation test that exchanges two metrics for whole participants, adjusted for all
  pairs of metrics.
own rho: the mean of the participants' own correlations. centred: scores less their participant's
  mean, pooled. Both leave out that some people score higher than others.
p-values take the answers for independent, which several by one participant are not; the sign-flip
  test of position bias does not (it turns a participant's answers all together)."""

SMALLEST_P = 1e-300
NAMED = 3  # sets without a value; the JSON names more
NOTE = TextWrapper(100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def to_table(analysis: Analysis) -> str:
    """Lay an analysis out for reading.

    Args:
        analysis: what `analyze` returned.

    Returns:
        Lines of at most 100 characters (a long name may exceed that), no line end after the last.
    """
    blocks = [list(_release(analysis))]
    blocks += [list(_metric(name, metric)) for name, metric in analysis.metrics.items()]
    blocks += [list(_comparison(each)) for each in analysis.comparisons]
    if analysis.details is not None:
        blocks.append([details_to_table(analysis.details)])
    if analysis.metrics:
        blocks.append([FOOTNOTE])
    return "\n\n".join("\n".join(block) for block in blocks)


def _release(analysis: Analysis) -> Iterator[str]:
    about, bias = analysis.release, analysis.position_bias
    yield (
        f"{about.name} {about.version} ({about.kind}, study {about.study}): "
        f"{_count(about.n_questions, 'question')}, {_count(about.n_sets, 'set')}, "
        f"{_count(about.n_participants, 'participant')}"
    )
    if about.simulated:
        yield "SIMULATED: these answers come from simulated annotators, not from people."
    if about.taken is not None:
        yield about.taken
    for note in analysis.notes:
        yield from NOTE.wrap(f"NOTE: {note}")
    left_out = f", {_count(bias.human_ties, 'human tie')} left out" if bias.human_ties else ""
    found = f"P(set 1 preferred) = {_figure(bias.rate)} {_ends(bias.ci)}, n = {bias.n:,}"
    yield f"position bias    {f'undefined: {bias.reason}' if bias.reason else found}{left_out}"
    if not bias.reason:
        yield f"{'':<17}binomial {_p(bias.p)}, sign flips of participants {_p(bias.p_clustered)}"
    yield from _intervals(bias.ci)
    yield from _normality("human score", analysis.human_score)


def _metric(name: str, metric: MetricAnalysis) -> Iterator[str]:
    yield name
    if metric.missing.n:
        named = ", ".join(metric.missing.first[:NAMED])
        more = ", ..." if metric.missing.n > NAMED else ""
        yield f"  no value for   {_count(metric.missing.n, 'set')}: {named}{more}"
    yield from _normality("  normality", metric.normality)
    rho = metric.spearman
    if rho.reason:
        yield f"  Spearman       undefined: {rho.reason}"
    else:
        low, high = (_figure(end) for end in rho.independent_ci)
        of = f"{_count(rho.n, 'set')} of {_count(rho.n_clusters, 'participant')}"
        yield f"  Spearman       rho = {_figure(rho.rho)} {_ends(rho.ci)}, n = {of}"
        yield f"{'':<17}as if the sets were independent: [{low}, {high}], {_p(rho.p)}"
    yield from _within(metric.within)
    rates = metric.preference
    yield (
        f"  pairs          {rates.base_rate.n:,} used ({_count(rates.metric_ties, 'metric tie')}); "
        f"left out: {_count(rates.human_ties, 'human tie')}, {rates.missing:,} without a value"
    )
    yield (
        f"  {'preference rate':<28}{'rate':>8}{'interval':>20}{'n':>9}{'coverage':>10}"
        f"{'base rate':>11}"
    )
    for label, rate, base in _rates(rates):
        yield _rate(label, rate, base)
    for other, rate in metric.given_tie.items():
        yield _rate(f"gt where {other} ties", rate, None)
    for human, accuracy in metric.pairwise.items():
        yield _accuracy(f"acc_eq, by {human}", accuracy)
    yield _margin("|m| difference", metric.margins.by_metric)
    yield _margin("|score| difference", metric.margins.by_score)


def _normality(label: str, result: Normality) -> Iterator[str]:
    found = f"Shapiro-Wilk W = {_figure(result.w)}, {_p(result.p)}, n = {result.n:,}"
    yield f"{label:<17}{f'undefined: {result.reason}' if result.reason else found}"
    if result.second is not None:
        second = result.second
        yield (
            f"{'':<17}its p is approximate beyond N = 5,000; "
            f"{second.test} = {second.statistic:.1f}, {_p(second.p)}"
        )


def _within(within: WithinParticipant) -> Iterator[str]:
    if not within.mean_reason:
        yield (
            f"{'  own rho':<17}{_figure(within.mean)} {_ends(within.mean_ci)}, "
            f"mean of {_count(within.n_participants, 'participant')}"
        )
    if not within.centred_reason:
        yield f"{'  centred':<17}rho = {_figure(within.centred)} {_ends(within.centred_ci)}"


def _intervals(interval: Interval | None) -> Iterator[str]:
    """Say how all intervals were found, and what to keep in mind."""
    if interval is None:
        return
    yield (
        f"intervals        {interval.level:.0%}, {interval.method}; unit: {interval.unit}, "
        f"{interval.n_resamples:,} resamples"
    )
    if interval.note:
        yield f"{'':<17}{interval.note}"
    if interval.reason:
        yield f"{'':<17}undefined: {interval.reason}"


def _ends(interval: Interval | None) -> str:
    """An interval as it stands in a line; nothing where there is none."""
    if interval is None or isnan(interval.low):
        return "[undefined]"
    return f"[{_figure(interval.low)}, {_figure(interval.high)}]"


def _rates(rates: PreferenceRates) -> list[tuple[str, Rate, float]]:
    base = rates.base_rate.rate
    return [
        ("ge", rates.ge, base),
        ("gt", rates.gt, base),
        ("symmetric", rates.symmetric, 0.5),
        ("tie_half", rates.tie_half, 0.5),
        ("ge, labels swapped", rates.ge_swapped, 1 - base),
        ("gt, labels swapped", rates.gt_swapped, 1 - base),
    ]


def _rate(label: str, rate: Rate, base: float | None) -> str:
    if rate.reason:
        return f"    {label:<26}  undefined: {rate.reason}"
    shown = "" if base is None else _figure(base)
    line = (
        f"    {label:<26}{_figure(rate.rate):>8}{_ends(rate.ci):>20}{rate.n:>9,}"
        f"{rate.coverage:>10.1%}{shown:>11}"
    )
    return line.rstrip()


def _accuracy(label: str, accuracy: PairwiseAccuracy) -> str:
    if accuracy.reason:
        return f"    {label:<26}  undefined: {accuracy.reason}"
    base = accuracy.human_ties / accuracy.n
    return (
        f"    {label:<26}{_figure(accuracy.accuracy):>8}{_ends(accuracy.ci):>20}{accuracy.n:>9,}"
        f"{'':>10}{_figure(base):>11}"
    )


def _margin(label: str, margin: AccuracyByMargin) -> str:
    if margin.reason:
        return f"    by {label:<23}  undefined: {margin.reason}"
    steps = " ".join(f"{each.accuracy:.2f}" for each in margin.bins)
    trend = margin.trend
    found = f"{trend.rho:+.2f}" if trend.reason is None else "undefined"
    return f"    by {label:<23}  {steps}; trend {found}"


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.metric} less {comparison.other}"
    for name in STATISTICS:
        found: Difference = getattr(comparison, name)
        if isnan(found.difference):
            yield f"  {name:<15}undefined: {found.reason}"
            continue
        p = "p undefined" if isnan(found.p) else f"{_p(found.p)}, Holm {_p(found.p_holm)}"
        yield f"  {name:<15}{found.difference:+.4f} {_ends(found.ci)}, {p}, n = {found.n:,}"


def _figure(value: float) -> str:
    return f"{value:.4f}"


def _p(p: float) -> str:
    return f"p < {SMALLEST_P:.0e}" if p < SMALLEST_P else f"p = {p:.2g}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
