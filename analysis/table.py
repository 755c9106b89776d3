"""An analysis as plain text, for a person at a terminal. Figures are rounded here and only here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.analyze import Analysis, MetricAnalysis
    from analysis.normality import Normality
    from analysis.preference import PreferenceRates, Rate

FOOTNOTE = """\
ge: P(set 1 preferred | m(set 1) >= m(set 2)), CIRQRS eq. 8; gt: the same with >, QuRe eq. 9.
  Both look at set 1 only. A tie of the metric fulfils >= either way round, so each tie enters ge
  twice, as it stands and with the labels swapped, and draws it towards the base rate.
base rate: what a metric that knows nothing gets: P(set 1 preferred) for ge and gt, P(set 2
  preferred) with the labels swapped, one half for the others. A rate near it says nothing.
symmetric: of the pairs with m different, the share where the higher is preferred.
tie_half: of all pairs, the same with metric ties counted half.
gt where another metric ties: CIRQRS eq. 9.
coverage: n / all questions of the release. Human ties are left out.
p-values take the answers for independent, which several by one participant are not."""

SMALLEST_P = 1e-300
NAMED = 3  # sets without a value; the JSON names more


def to_table(analysis: Analysis) -> str:
    """Lay an analysis out for reading.

    Args:
        analysis: what `analyze` returned.

    Returns:
        Lines of at most 100 characters (a long name may exceed that), no line end after the last.
    """
    blocks = [list(_release(analysis))]
    blocks += [list(_metric(name, metric)) for name, metric in analysis.metrics.items()]
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
    left_out = f", {_count(bias.human_ties, 'human tie')} left out" if bias.human_ties else ""
    found = f"P(set 1 preferred) = {_figure(bias.rate)}, binomial {_p(bias.p)}, n = {bias.n:,}"
    yield f"position bias    {f'undefined: {bias.reason}' if bias.reason else found}{left_out}"
    yield from _normality("human score", analysis.human_score)


def _metric(name: str, metric: MetricAnalysis) -> Iterator[str]:
    yield name
    if metric.missing.n:
        named = ", ".join(metric.missing.first[:NAMED])
        more = ", ..." if metric.missing.n > NAMED else ""
        yield f"  no value for   {_count(metric.missing.n, 'set')}: {named}{more}"
    yield from _normality("  normality", metric.normality)
    rho = metric.spearman
    found = (
        f"rho = {_figure(rho.rho)}, {_p(rho.p)}, n = {_count(rho.n, 'set')} "
        f"of {_count(rho.n_clusters, 'participant')}"
    )
    yield f"  Spearman       {f'undefined: {rho.reason}' if rho.reason else found}"
    rates = metric.preference
    yield (
        f"  pairs          {rates.base_rate.n:,} used ({_count(rates.metric_ties, 'metric tie')}); "
        f"left out: {_count(rates.human_ties, 'human tie')}, {rates.missing:,} without a value"
    )
    yield f"  {'preference rate':<28}{'rate':>8}{'n':>10}{'coverage':>10}{'base rate':>11}"
    for label, rate, base in _rates(rates):
        yield _rate(label, rate, base)
    for other, rate in metric.given_tie.items():
        yield _rate(f"gt where {other} ties", rate, None)


def _normality(label: str, result: Normality) -> Iterator[str]:
    found = f"Shapiro-Wilk W = {_figure(result.w)}, {_p(result.p)}, n = {result.n:,}"
    yield f"{label:<17}{f'undefined: {result.reason}' if result.reason else found}"
    if result.second is not None:
        second = result.second
        yield (
            f"{'':<17}its p is approximate beyond N = 5,000; "
            f"{second.test} = {second.statistic:.1f}, {_p(second.p)}"
        )


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
    line = f"    {label:<26}{_figure(rate.rate):>8}{rate.n:>10,}{rate.coverage:>10.1%}{shown:>11}"
    return line.rstrip()


def _figure(value: float) -> str:
    return f"{value:.4f}"


def _p(p: float) -> str:
    return f"p < {SMALLEST_P:.0e}" if p < SMALLEST_P else f"p = {p:.2g}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
