"""The details of an analysis as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.analyze import Details
from hsfiq.analysis.reports.text.format import estimate_text, line
from hsfiq.analysis.reports.text.people import overlap_lines, participants_lines
from hsfiq.analysis.reports.text.systems import systems_lines
from hsfiq.analysis.reports.text.within_query import within_query_lines
from hsfiq.analysis.sensitivity.conclusions import STATISTICS
from hsfiq.analysis.sensitivity.sensitivity import Sensitivity
from hsfiq.analysis.statistics.categories import Categories


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
    for statistic in STATISTICS:
        for name, bounds in sensitivity.jackknife.ranges[statistic].items():
            text = "undefined" if isnan(bounds.low) else f"{bounds.low:.4f} to {bounds.high:.4f}"
            yield f"  leaving out any one participant, {statistic} of {name}: {text}"
