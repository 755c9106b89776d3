"""An analysis as plain text: the release, each metric, and the comparisons of metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from math import isnan
from textwrap import TextWrapper

from hsfiq.analysis.analyze import Analysis, Categories, Details, MetricAnalysis
from hsfiq.analysis.answer_model import AnswerModel
from hsfiq.analysis.equivalence import Equivalence
from hsfiq.analysis.people.agreement import Agreement, IntraRater
from hsfiq.analysis.people.judges import MARGIN, JudgeAgreement
from hsfiq.analysis.people.participants import TOO_LITTLE_OVERLAP, Participants, PlaceAndTime, Trend
from hsfiq.analysis.people.reliability import Overlap
from hsfiq.analysis.reports.document import (
    estimate_text,
    folded,
    interval_text,
    line,
    named_effects,
    p_text,
)
from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference
from hsfiq.analysis.sensitivity import SENSITIVE_STATISTICS, Sensitivity
from hsfiq.analysis.statistics.accuracy import AccuracyByMargin, PairwiseAccuracy
from hsfiq.analysis.statistics.comparison import STATISTICS, Comparison
from hsfiq.analysis.statistics.correlation import Normality, WithinParticipant, WithinQuery
from hsfiq.analysis.statistics.preference import RULES, Rate, base_rates, rates_by_rule
from hsfiq.analysis.systems.pair_agreement import SIGNIFICANT, SpaDifference
from hsfiq.analysis.systems.ranks import MetricRank
from hsfiq.analysis.systems.systems import Systems
from hsfiq.text import count_text

# The model of the scores as plain text.


def answer_model_lines(model: AnswerModel) -> Iterator[str]:
    counts = (
        f"{count_text(model.n_scores, 'score')}, "
        f"{count_text(model.n_participants, 'participant')}, "
        f"{count_text(model.n_triplets, 'triplet')}"
    )
    if model.reason is not None:
        yield line("model of scores", f"undefined: {model.reason} ({counts})")
        return
    yield line("model of scores", f"{counts}; log odds of a higher score")
    for name, effect in named_effects(model).items():
        text = f"undefined: {effect.reason}"
        if effect.reason is None:
            low, high = effect.wald
            text = f"{effect.value:+.3f} [{low:.3f}, {high:.3f}], {p_text(effect.p)}"
        yield f"  {name:<42}{text}"
    for name, deviation, share in (
        ("participants", model.sd_participants, model.shares["participants"]),
        ("triplets", model.sd_triplets, model.shares["triplets"]),
    ):
        low, high = deviation.wald
        interval = f"{deviation.value:.3f} [{low:.3f}, {high:.3f}]"
        yield f"  {f'standard deviation of {name}':<42}{interval}, {share:.1%} of the variance"


# Judges beside people, as plain text.


def judges_lines(judges: Mapping[str, JudgeAgreement]) -> Iterator[str]:
    yield line("judges", "agreement with the preferences of other people, on the same pairs")
    for name, judge in judges.items():
        yield f"  {name}"
        for part, figures in judge.parts.items():
            if isnan(figures.difference):
                yield f"    {part:<13}undefined: {figures.reason}"
                continue
            yield (
                f"    {part:<13}judge {figures.judge:.4f}, people {figures.people:.4f}, difference "
                f"{figures.difference:+.4f} {interval_text(figures.ci)}"
            )
            answers = count_text(figures.n, "answer")
            pairs = count_text(figures.n_pairs, "pair of sets", "pairs of sets")
            people = count_text(figures.n_participants, "participant")
            yield f"{'':<17}{answers} about {pairs} by {people}: {figures.verdict}"
    yield line("", f"as well as people: at most {MARGIN:g} less agreement, by the interval")


# The people behind the answers, as plain text.

N_OUTLIERS = 5


def participants_lines(
    participants: Participants, by: PlaceAndTime, repeated: IntraRater
) -> Iterator[str]:
    outliers = participants.outliers
    yield line("participants", f"{len(participants.table):,}; outliers (listed, not excluded):")
    for outlier in outliers[:N_OUTLIERS]:
        yield (
            f"  {outlier.participant}: {outlier.figure} {outlier.value:.3f}, "
            f"median {outlier.median:.3f}, z {outlier.z:+.1f}"
        )
    if len(outliers) > N_OUTLIERS:
        yield f"  and {len(outliers) - N_OUTLIERS} more"
    if not outliers:
        yield "  none"
    yield from _care(participants)
    for name, trend in (("place in the form", by.place), ("seconds", by.seconds)):
        yield from _trend(name, trend)
    if repeated.same_preference.reason is not None:
        yield f"  repeated pairs: {repeated.same_preference.reason}"
        return
    people = count_text(repeated.n_participants, "participant")
    yield (
        f"  repeated pairs: {repeated.n:,} by {people}; "
        f"same preference {estimate_text(repeated.same_preference, 3)}, weighted kappa of scores "
        f"{estimate_text(repeated.kappa, 3)}"
    )


def _care(participants: Participants) -> Iterator[str]:
    table = participants.table
    if not len(table):
        return
    runs, shares = table["longest_run"], table["modal_share"]
    yield (
        f"  straight-lining: longest run of one answer {runs.max():.0f} ({runs.idxmax()}); "
        f"most frequent answer at most {shares.max():.1%} ({shares.idxmax()})"
    )
    known = table["with_others"].dropna()
    if not len(known):
        yield f"  agreement with other annotators: undefined for everybody: {TOO_LITTLE_OVERLAP}"
        return
    text = f"rho {known.min():.3f} to {known.max():.3f}"
    reliable = table["reliability"].dropna()
    if len(reliable):
        text += f", shrunk {reliable.min():.3f} to {reliable.max():.3f}"
    people = count_text(len(known), "participant")
    yield f"  agreement with other annotators: {text}, of {people}"


def _trend(name: str, trend: Trend) -> Iterator[str]:
    """The change from the first to the last bin."""
    change = trend.change
    if change is None:
        yield f"  by {name}: {trend.reason}"
        return
    first, last = trend.bins[0], trend.bins[-1]
    figures = {"mean score": change.mean_score} | {
        f"tie_half of {metric}": each for metric, each in change.tie_half.items()
    }
    texts = (f"{figure} {_change_text(each)}" for figure, each in figures.items())
    yield (
        f"  by {name}, {last.low:.3g}-{last.high:.3g} minus {first.low:.3g}-{first.high:.3g}: "
        f"{', '.join(texts)}"
    )


def _change_text(change: Estimate) -> str:
    if isnan(change.value):
        return "undefined"
    return f"{change.value:+.3f} {interval_text(change.ci, 3)}"


def overlap_lines(overlap: Overlap) -> Iterator[str]:
    shared = count_text(overlap.n_sets, "set")
    yield line("agreement", f"{shared} scored by more than one participant")
    if not overlap.n_sets:
        return
    for name, alpha in (("scores", overlap.scores), ("preferences", overlap.preferences)):
        yield f"  {f'alpha of {name}':<30}{alpha_text(alpha)}"
    reliability = overlap.reliability
    if reliability.single.reason is not None:  # the reason is that of alpha
        return
    yield f"  {'reliability of scores':<30}ICC(1) = {estimate_text(reliability.single)}"
    for mean in reliability.means[1:]:
        yield (
            f"  {f'  mean of {mean.n_raters} raters':<30}ICC(1,{mean.n_raters}) = "
            f"{estimate_text(mean.reliability)}"
        )
    yield f"  {'predicted by':<30}{'rho':>25}{'tie_half':>25}"
    for name, figures in overlap.predictors.items():
        yield (
            f"    {name:<28}{estimate_text(figures.spearman):>25}"
            f"{estimate_text(figures.tie_half):>25}"
        )
    yield f"    {'any metric, at most':<28}{estimate_text(reliability.rho_bound):>25}"


def alpha_text(agreement: Agreement) -> str:
    """Krippendorff's alpha with its interval and its units, or why it is undefined."""
    if isnan(agreement.alpha):
        return f"undefined: {agreement.reason}"
    units = count_text(agreement.n_units, "unit")
    return f"{agreement.alpha:.4f} {interval_text(agreement.ci)} ({units})"


# The systems, and the ranks of metrics, as plain text.

MOST_DIFFERENCES = 6  # as many as four metrics have
WRAPPED = TextWrapper(
    100, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
    break_on_hyphens=False,
)  # fmt: skip


def systems_lines(systems: Systems) -> Iterator[str]:
    if systems.reason is not None:
        yield line("systems", f"undefined: {systems.reason}")
        return
    yield f"{'systems':<18}{'win rate':>26}{'strength (log)':>28}{'mean score':>26}"
    by_win_rate = sorted(systems.figures.items(), key=lambda item: -item[1].win_rate.value)
    for name, system in by_win_rate:
        win_rate, strength, mean_score = (
            estimate_text(estimate, 3)
            for estimate in (system.win_rate, system.strength, system.mean_score)
        )
        yield f"  {name:<16}{win_rate:>26}{strength:>28}{mean_score:>26}"
    yield from WRAPPED.wrap(f"ranks by people: {systems.ranks.text()}")
    yield from WRAPPED.wrap(_side(systems))
    for metric, figures in systems.metrics.items():
        order = figures.order
        text = f"undefined: {order.reason}"
        if order.reason is None:
            pairs = ", ".join(" and ".join(pair) for pair in order.swapped) or "none"
            tau = f"Kendall's tau {order.tau:.2f} {interval_text(order.ci, 3)}"
            text = f"{tau}, reversed: {pairs}"
        yield f"  ranking by {metric}: {text}"
        yield from WRAPPED.wrap(f"ranks by {metric}: {figures.ranks.text()}")
        agreement = figures.pairs
        text = f"undefined: {agreement.reason}"
        if agreement.n_pairs:
            text = (
                f"accuracy {agreement.accuracy:.3f}, soft {agreement.spa:.3f}, "
                f"n = {agreement.n_pairs:,}"
            )
        yield f"  pairs of systems by {metric}: {text}"
    yield from _spa_differences(systems.spa_differences)


def _spa_differences(differences: Sequence[SpaDifference]) -> Iterator[str]:
    if len(differences) > MOST_DIFFERENCES:
        n = sum(each.spa.p_holm <= SIGNIFICANT for each in differences)
        yield from WRAPPED.wrap(
            f"soft pairwise accuracy: {n:,} of {len(differences):,} pairs of metrics differ "
            "significantly; --json and --report have all differences"
        )
        return
    for each in differences:
        text = f"undefined: {each.spa.reason}"
        if each.spa.reason is None:
            p = f"{p_text(each.spa.p)}, Holm {p_text(each.spa.p_holm)}"
            text = f"{each.spa.difference:+.3f}, {p}"
        names = f"{each.metric} minus {each.other}"
        yield from WRAPPED.wrap(f"soft pairwise accuracy, {names}: {text}")


def metric_ranks_lines(ranks: Mapping[str, Sequence[MetricRank]]) -> Iterator[str]:
    """One line for each statistic; metrics of the same rank are joined by commas."""
    yield "ranks of metrics (a new rank begins at a significant difference, Holm p at most 0.05)"
    for statistic, each in ranks.items():
        groups = groupby(each, key=lambda metric: metric.rank)
        text = " | ".join(
            f"{rank}: {', '.join(metric.metric for metric in metrics)}" for rank, metrics in groups
        )
        yield from WRAPPED.wrap(f"by {statistic}: {text or 'undefined'}")


def _side(systems: Systems) -> str:
    model = systems.model
    if model.reason is not None:
        return f"side apart from systems: undefined: {model.reason}"
    return (
        f"side apart from systems: log odds of set 1 {model.side.value:+.3f} "
        f"{interval_text(model.side.ci, 3)}, P = {model.set_1_rate:.3f} between equals"
    )


# Correlations within queries, and tests of equivalence, as plain text.

VERDICTS = {True: "equivalent", False: "not shown to be equivalent"}


def within_query_lines(within: WithinQuery) -> Iterator[str]:
    yield line("within queries", "mean rank correlation among the sets of a query")
    for metric, each in within.metrics.items():
        if each.spearman.reason is not None:
            yield f"  {metric}: undefined: {each.spearman.reason}"
            continue
        yield (
            f"  {metric}: rho {estimate_text(each.spearman)}, tau {estimate_text(each.kendall)}, "
            f"{each.spearman.n:,} of {count_text(each.n_groups, 'query', 'queries')}"
        )
    for difference in within.differences:
        names = f"{difference.metric} minus {difference.other}"
        gap = difference.spearman
        if isnan(gap.difference):
            yield f"  {names}: undefined: {gap.reason}"
            continue
        p = f"{p_text(gap.p)}, Holm {p_text(gap.p_holm)}"
        p = "p undefined" if isnan(gap.p) else p
        yield f"  {names}: {gap.difference:.4f} {interval_text(gap.ci, 3)}, {p}"


def equivalence_lines(tested: Sequence[Equivalence]) -> Iterator[str]:
    if not tested:
        yield line("equivalence", "undefined: neither two named systems nor two metrics")
        return
    yield line("equivalence", f"within {tested[0].margin:g} of each other; 90% intervals")
    for each in tested:
        names = f"  {each.first} and {each.second}, {each.statistic}:"
        if each.is_equivalent is None:
            yield f"{names} undefined: {each.reason}"
            continue
        yield (
            f"{names} {each.difference:+.4f} [{each.low:+.4f}, {each.high:+.4f}], "
            f"{p_text(each.p)}, Holm {p_text(each.p_holm)}: {VERDICTS[each.is_equivalent]}"
        )


# The details of an analysis as plain text.


def details_text(details: Details) -> str:
    blocks = (
        within_query_lines(details.within_query),
        systems_lines(details.systems),
        participants_lines(details.participants, details.place_and_time, details.repeated_pairs),
        _categories(details.categories),
        overlap_lines(details.overlap),
        _sensitivity(details.sensitivity),
    )
    return "\n\n".join("\n".join(block) for block in blocks)


def _categories(categories: Categories) -> Iterator[str]:
    if categories.reason is not None:
        yield line("categories", f"undefined: {categories.reason}")
        return
    yield f"{'categories':<26}{'questions':>10}{'rho':>28}{'tie_half':>28}"
    for category, figures in categories.figures.items():
        for metric, rho in figures.spearman.items():
            yield (
                f"  {f'{category}, {metric}':<24}{figures.n_questions:>10,}"
                f"{estimate_text(rho):>28}"
                f"{estimate_text(figures.preference[metric].tie_half):>28}"
            )
    if categories.note is not None:
        yield f"  {categories.note}"


def _sensitivity(sensitivity: Sensitivity) -> Iterator[str]:
    yield line("sensitivity", "do the conclusions change?")
    for row in sensitivity.rows[1:]:
        if row.reason is not None:
            yield f"  {row.rule:<54}{row.reason}"
            continue
        yield f"  {row.rule:<54}{row.n_dropped:>8,} excluded: {'yes' if row.changes else 'no'}"
        yield from (f"    {change}" for change in row.changes)
    for statistic in SENSITIVE_STATISTICS:
        for name, bounds in sensitivity.jackknife.ranges[statistic].items():
            text = "undefined" if isnan(bounds.low) else f"{bounds.low:.4f} to {bounds.high:.4f}"
            yield f"  leaving out any one participant, {statistic} of {name}: {text}"


# An analysis as plain text: the release, each metric, and the comparisons of metrics.

FOOTNOTE = (files("hsfiq.analysis.reports") / "footnote.txt").read_text(encoding="utf-8").rstrip()
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
