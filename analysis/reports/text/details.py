"""The details of an analysis as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.analyze import Details
from hsfiq.analysis.counts import count_text
from hsfiq.analysis.people.overlap import Overlap
from hsfiq.analysis.people.participants import Participants
from hsfiq.analysis.reports.text.format import estimate_text, line
from hsfiq.analysis.reports.text.systems import systems_lines
from hsfiq.analysis.sensitivity.conclusions import STATISTICS
from hsfiq.analysis.sensitivity.sensitivity import Sensitivity
from hsfiq.analysis.statistics.agreement import Agreement
from hsfiq.analysis.statistics.categories import Categories

N_OUTLIERS = 5


def details_text(details: Details) -> str:
    blocks = (
        systems_lines(details.systems),
        _participants(details.participants),
        _categories(details.categories),
        _overlap(details.overlap),
        _sensitivity(details.sensitivity),
    )
    return "\n\n".join("\n".join(block) for block in blocks)


def _participants(participants: Participants) -> Iterator[str]:
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


def _overlap(overlap: Overlap) -> Iterator[str]:
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
    low, high = agreement.ci
    return f"{agreement.alpha:.4f} [{low:.4f}, {high:.4f}] ({agreement.n_units:,} units)"


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
