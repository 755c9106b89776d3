"""The figures of sessions as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.reports.text.format import folded, interval_text
from hsfiq.analysis.resampling.estimate import Estimate
from hsfiq.analysis.sessions.differences import Differences
from hsfiq.analysis.sessions.measure import SessionAnalysis, SystemMeasures

LABEL, COLUMN = 24, 25  # characters
DIGITS = 3
LARGE = 100
"""Ranks from here on have no decimals."""
SIMULATED = "SIMULATED: texts come from simulators, not from people"


def session_text(analysis: SessionAnalysis) -> str:
    """Lines of at most 100 characters, unless a word is longer, without a final newline."""
    blocks = [list(system_lines(name, each, analysis)) for name, each in analysis.systems.items()]
    blocks += [list(difference_lines(name, each)) for name, each in analysis.differences.items()]
    rules = analysis.rules
    clusters = f"{count_text(analysis.n_clusters, 'cluster')} ({analysis.unit})"
    blocks.append(
        [
            f"rules: after a session's end {rules.after_stop}, ties {rules.ties}",
            f"intervals: 95%, bootstrap over {clusters}; --json has all rounds and their methods",
            *([SIMULATED] if analysis.simulated else []),
            *(f"note: {note}" for note in analysis.notes),
        ]
    )
    return "\n\n".join("\n".join(map(folded, block)) for block in blocks)


def system_lines(name: str, system: SystemMeasures, analysis: SessionAnalysis) -> Iterator[str]:
    """The figures of the rounds that the rules print, then those of sessions."""
    stops = ", ".join(f"{reason} {n:,}" for reason, n in system.stops.items())
    yield (
        f"{name}: {count_text(system.n_sessions, 'session')} of "
        f"{count_text(system.n_queries, 'query', 'queries')}; ends: {stops}"
    )
    rounds = analysis.rules.printed_rounds(system.n_rounds)
    yield " " * LABEL + "".join(f"{f'round {each}':<{COLUMN}}" for each in rounds).rstrip()
    for figure, estimates in system.by_round.items():
        cells = [figure_text(estimates[each - 1]) for each in rounds]
        if len(set(cells)) == 1 and isnan(estimates[0].value):
            cells = cells[:1]
        yield f"  {figure:<{LABEL - 2}}{''.join(f'{cell:<{COLUMN}}' for cell in cells)}".rstrip()
    for figure, estimate in system.of_sessions.items():
        yield f"  {figure:<{LABEL - 2}} {figure_text(estimate)}"
    for figure, success in system.success.items():
        median = success.median
        half = f", half by round {median.value:.0f}" if not isnan(median.value) else ""
        if isnan(median.value) and not isnan(success.mean.value):
            half = f", {median.reason}"
        yield f"  {figure:<{LABEL - 2}} mean {figure_text(success.mean)}{half}"


def difference_lines(name: str, differences: Differences) -> Iterator[str]:
    yield (
        f"{name} minus {differences.minus}, round {differences.round}, "
        f"{count_text(differences.n_queries, 'query', 'queries')} of both"
    )
    for figure, estimate in differences.figures.items():
        yield f"  {figure:<{LABEL - 2}}{figure_text(estimate, signed=True)}"


def figure_text(estimate: Estimate, *, signed: bool = False) -> str:
    if isnan(estimate.value):
        return f"undefined: {estimate.reason}"
    digits = DIGITS if abs(estimate.value) < LARGE else 0
    interval = "" if estimate.ci is None else f" {interval_text(estimate.ci, digits)}"
    return f"{estimate.value:{'+' if signed else ''}.{digits}f}{interval}"
