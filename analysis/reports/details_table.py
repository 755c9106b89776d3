"""The details of an analysis as plain text, for a person at a terminal; rounded here alone."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from hsfiq.analysis.sensitivity.conclusions import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.analysis.details import Details
    from hsfiq.analysis.resampling.estimate import Estimate
    from hsfiq.analysis.resampling.interval import Interval
    from hsfiq.analysis.sensitivity.sensitivity import Sensitivity
    from hsfiq.analysis.statistics.categories import Categories
    from hsfiq.analysis.statistics.ceiling import Ceiling
    from hsfiq.analysis.statistics.correlation import Correlation
    from hsfiq.analysis.statistics.participants import Participants
    from hsfiq.analysis.statistics.preference import Rate
    from hsfiq.analysis.systems.systems import Systems

NAMED = 5  # outliers


def details_to_table(details: Details) -> str:
    """Lay the details out for reading.

    Args:
        details: what `details` returned.

    Returns:
        Lines, no line end after the last.
    """
    blocks = (
        _systems(details.systems),
        _participants(details.participants),
        _categories(details.categories),
        _ceiling(details.ceiling),
        _sensitivity(details.sensitivity),
    )
    return "\n\n".join("\n".join(block) for block in blocks)


def _systems(found: Systems) -> Iterator[str]:
    if found.reason is not None:
        yield f"systems          undefined: {found.reason}"
        return
    yield f"{'systems':<18}{'win rate':>26}{'strength (log)':>28}{'mean score':>26}"
    for name, each in sorted(found.figures.items(), key=lambda item: -item[1].win_rate.value):
        columns = (each.win_rate, each.strength, each.mean_score)
        yield f"  {name:<16}" + "".join(
            f"{_estimate(figure):>{width}}"
            for figure, width in zip(columns, (26, 28, 26), strict=True)
        )
    for metric, by_metric in found.metrics.items():
        order = by_metric.order
        swapped = ", ".join(" and ".join(pair) for pair in order.swapped) or "none"
        said = f"undefined: {order.reason}"
        if order.reason is None:
            said = f"Kendall's tau {order.tau:.2f} {_ends(order.ci)}, swapped: {swapped}"
        yield f"  order by {metric}: {said}"


def _participants(found: Participants) -> Iterator[str]:
    yield f"participants     {len(found.table):,}; standing apart (named, not left out):"
    for outlier in found.outliers[:NAMED]:
        yield (
            f"  {outlier.participant}: {outlier.figure} {outlier.value:.3f}, "
            f"median {outlier.median:.3f}, z {outlier.z:+.1f}"
        )
    left = len(found.outliers) - NAMED
    if left > 0:
        yield f"  and {left} more"
    if not found.outliers:
        yield "  nobody"


def _categories(found: Categories) -> Iterator[str]:
    if found.reason is not None:
        yield f"categories       undefined: {found.reason}"
        return
    yield f"{'categories':<26}{'questions':>10}{'rho':>28}{'tie_half':>28}"
    for category, figures in found.figures.items():
        for metric in figures.spearman:
            yield (
                f"  {f'{category}, {metric}':<24}{figures.n_questions:>10,}"
                f"{_rho(figures.spearman[metric]):>28}"
                f"{_rate(figures.preference[metric].tie_half):>28}"
            )
    if found.note is not None:
        yield f"  {found.note}"


def _ceiling(found: Ceiling) -> Iterator[str]:
    yield f"human ceiling    {found.n_sets:,} sets judged by somebody else too"
    if not found.n_sets:
        return
    for name, each in (("people", found.people), *found.metrics.items()):
        yield f"  {name:<24}{_rho(each.spearman):>28}{_rate(each.tie_half):>28}"


def _sensitivity(found: Sensitivity) -> Iterator[str]:
    yield "sensitivity      do the conclusions change?"
    for row in found.rows[1:]:
        dropped = f"{row.n_dropped:>8,} dropped"
        if row.reason is not None:
            yield f"  {row.rule:<54}not known: {row.reason}"
            continue
        yield f"  {row.rule:<54}{dropped}: {'yes' if row.changes else 'no'}"
        yield from (f"    {change}" for change in row.changes)
    for statistic in STATISTICS:
        for name, each in found.left_out.ranges[statistic].items():
            said = "undefined" if isnan(each.low) else f"{each.low:.4f} to {each.high:.4f}"
            yield f"  one participant left out, {statistic} of {name}: {said}"


def _estimate(estimate: Estimate) -> str:
    return "undefined" if estimate.reason else f"{estimate.value:.3f} {_ends(estimate.ci)}"


def _rho(found: Correlation) -> str:
    return "undefined" if found.reason else f"{found.rho:.4f} {_ends(found.ci)}"


def _rate(found: Rate) -> str:
    return "undefined" if found.reason else f"{found.rate:.4f} {_ends(found.ci)}"


def _ends(interval: Interval | None) -> str:
    if interval is None or isnan(interval.low):
        return "[undefined]"
    return f"[{interval.low:.3f}, {interval.high:.3f}]"
