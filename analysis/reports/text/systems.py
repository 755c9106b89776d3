"""The systems, and the ranks of metrics, as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import TextWrapper

from hsfiq.analysis.reports.text.format import estimate_text, interval_text, line, p_text
from hsfiq.analysis.systems.metric_ranks import MetricRank
from hsfiq.analysis.systems.pair_agreement import SIGNIFICANT, SpaDifference
from hsfiq.analysis.systems.systems import Systems

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
