"""The people behind the answers, as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from hsfiq.analysis.counts import count_text
from hsfiq.analysis.people.agreement import Agreement
from hsfiq.analysis.people.overlap import Overlap
from hsfiq.analysis.people.participants import TOO_LITTLE_OVERLAP, Participants
from hsfiq.analysis.people.place_and_time import PlaceAndTime, Trend
from hsfiq.analysis.people.repeats import IntraRater
from hsfiq.analysis.reports.text.format import estimate_text, interval_text, line
from hsfiq.analysis.resampling.estimate import Estimate

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
