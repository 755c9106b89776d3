"""The dashboard's headline numbers, and its plots with their numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan, nan
from typing import TYPE_CHECKING

from markupsafe import Markup

from hsfiq.annotate.owner import figures, plots
from hsfiq.annotate.owner.fragments import percent, render_fragment, seconds
from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.collect.checks import CheckResult
from hsfiq.collect.progress import AnswerRow, Headline

if TYPE_CHECKING:
    from hsfiq.analysis.people.agreement import Agreement
    from hsfiq.analysis.statistics.preference import Proportion

CHECK_NAMES = {
    "arithmetic": "Arithmetic (attempts)",
    "gold": "Gold pairs",
    "repeat": "Repeated pairs",
}
LISTED = 6
"""How many names or ids are listed; of the others only the number is given."""


# ------------------------------------------------------------------------------------------- tiles


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline number: `unit` follows it, `share` (if any) is shown as a progress bar."""

    name: str
    number: str
    unit: str
    note: str
    share: float | None = None
    warns: bool = False


def tiles(
    headline: Headline,
    standings: Mapping[str, int],
    answers: Sequence[AnswerRow],
    checks: Sequence[CheckResult],
    flagged: Sequence[str],
    now: datetime,
) -> Markup:
    """The headline numbers; `flagged` are the names of participants to look at.

    Sums are no checks: they are repeated until they are right.
    """
    progress = headline.progress
    checks = [check for check in checks if check.kind != "arithmetic"]
    median = figures.times_of([answer for answer in answers if answer.counts]).median
    failed = sum(not check.passed for check in checks)
    return render_fragment(
        "tiles.html",
        tiles=[
            answered_tile(headline),
            Tile(
                "Pace",
                f"{figures.rate_of(answers, now).in_last_hour:,}",
                "in the last hour",
                f"{seconds(median)} per question (median){end_note(headline, answers, now)}",
            ),
            participants_tile(headline, standings, flagged),
            abandoned_tile(headline),
            Tile(
                "Checks failed",
                f"{failed:,}",
                f"of {len(checks):,}",
                percent(failed / len(checks)) if checks else "none answered yet",
            ),
            Tile(
                "Every image painted",
                f"{progress.images_painted:,}",
                f"of {progress.answered - progress.skipped:,} answers",
                f"{progress.images_not_painted:,} without every image, "
                f"{progress.images_unknown:,} unknown",
                warns=progress.images_not_painted > 0,
            ),
            Tile(
                "Skipped",
                f"{progress.skipped:,}",
                "question" if progress.skipped == 1 else "questions",
                listed(headline.skipped) or "no question was skipped",
                warns=progress.skipped > 0,
            ),
        ],
    )


def recruitment_tiles(headline: Headline, standings: Mapping[str, int]) -> Markup:
    """The numbers that say nothing of what was answered."""
    people = participants_tile(headline, standings)
    shown = [answered_tile(headline), people, abandoned_tile(headline)]
    return render_fragment("tiles.html", tiles=shown)


def answered_tile(headline: Headline) -> Tile:
    progress = headline.progress
    share = progress.answered / progress.questions if progress.questions else 0.0
    return Tile(
        "Answered",
        f"{progress.answered:,}",
        f"of {progress.questions:,}",
        percent(share),
        share=round(share, 4),
    )


def participants_tile(
    headline: Headline, standings: Mapping[str, int], flagged: Sequence[str] = ()
) -> Tile:
    n_participants, counted = headline.progress.participants, Counter(standings)
    note = ", ".join(f"{count:,} {name}" for name, count in counted.most_common()) or "nobody yet"
    if counted.total() != n_participants:
        note = f"seen last: {note}"
    if flagged:
        note = f"{note}; to look at: {listed(flagged)}"
    return Tile("Participants", f"{n_participants:,}", "", note, warns=bool(flagged))


def abandoned_tile(headline: Headline) -> Tile:
    return Tile(
        "Abandoned",
        f"{headline.abandoned:,}",
        "to reassign",
        f"lease over: {listed(headline.late)}" if headline.late else "no lease is over",
        warns=headline.abandoned > 0,
    )


def end_note(headline: Headline, answers: Sequence[AnswerRow], now: datetime) -> str:
    """When the study will be complete at the pace of the last day, while it is open."""
    progress = headline.progress
    counting = [answer for answer in answers if answer.counts]
    end = figures.projected_end(counting, progress.questions - progress.answered, now)
    if end is None or progress.status != "open":
        return ""
    return f"; at the last day's pace complete on {end:%d %b %Y, %H:%M} UTC"


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


# ------------------------------------------------------------------------------------------- plots


@dataclass(frozen=True, slots=True)
class Line:
    """A value in large type with a note in small type, and a plot below."""

    value: str
    note: str
    plot: Markup


@dataclass(frozen=True, slots=True)
class Card:
    """A plot with its name above and its numbers in words below.

    `empty` is the text in place of the plot if there is nothing to show; `legend` holds
    `(CSS class, label)`.
    """

    name: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    empty: str = ""


def cards(
    answers: Sequence[AnswerRow],
    checks: Sequence[CheckResult],
    now: datetime,
    *,
    points: int = HIGHEST_SCORE,
    of_kind: Sequence[Card] | None = None,
    further: Sequence[Card] = (),
) -> Markup:
    """All plots, `further` ones last; answers of excluded participants are only in the checks'.

    Gold and repeated pairs measure attention, so scores, sides and times exclude them. Scores,
    sides and agreement are those of pairs; studies of other kinds have the cards `of_kind`.
    """
    counting = tuple(answer for answer in answers if answer.counts)
    judgements = tuple(answer for answer in counting if answer.check is None)
    return render_fragment(
        "cards.html",
        cards=[
            rate_card(counting, now),
            times_card(judgements),
            *(pair_cards(counting, judgements, points) if of_kind is None else of_kind),
            checks_card(checks),
            *further,
        ],
    )


def pair_cards(
    counting: tuple[AnswerRow, ...], judgements: Sequence[AnswerRow], points: int
) -> tuple[Card, ...]:
    return scores_card(judgements, points), side_card(judgements), agreement_card(counting)


def rate_card(answers: Sequence[AnswerRow], now: datetime) -> Card:
    """Answers per hour, or per day in a study of several days."""
    rate = figures.rate_of(answers, now)
    name = f"Answers per {rate.unit}"
    if not rate.counts:
        return Card(name, empty="No answer yet")
    label_format = "%H:%M" if rate.unit == "hour" else "%d %b"
    every = -(-len(rate.starts) // 6)
    rows = [
        plots.Column(
            f"{start:{label_format}}" if index % every == 0 else "",
            (count,),
            f"{start:%Y-%m-%d %H:%M}: {count:,}",
        )
        for index, (start, count) in enumerate(zip(rate.starts, rate.counts, strict=True))
    ]
    span = f"{rate.starts[0]:%d %b %Y} to {rate.starts[-1]:%d %b %Y}, UTC"
    note = f"most in one {rate.unit}: {max(rate.counts):,}; {span}"
    return Card(name, (Line("", "", plots.columns(rows, name)),), (note,))


def times_card(answers: Sequence[AnswerRow]) -> Card:
    times, name = figures.times_of(answers), "Active seconds per question"
    if times.median is None:
        return Card(name, empty="No times yet")
    last = len(times.counts) - 1
    every = -(-len(times.counts) // 7)
    rows = []
    for index, count in enumerate(times.counts):
        low = index * times.width
        is_labelled = index == last or (index % every == 0 and last - index >= every / 2)
        label = f"{low}+" if index == last else str(low)
        span = f"{low} s or more" if index == last else f"{low} to {low + times.width} s"
        rows.append(plots.Column(label if is_labelled else "", (count,), f"{span}: {count:,}"))
    note = f"median {seconds(times.median)}, first answers only"
    return Card(name, (Line("", "", plots.columns(rows, name)),), (note,))


def scores_card(answers: Sequence[AnswerRow], points: int) -> Card:
    first, second = figures.scores_of(answers, points)
    n, name = sum(first), "Scores"
    if n == 0:
        return Card(name, empty="No score yet")
    rows = [
        plots.Column(str(score), (a / n, b / n), f"{score}: set 1 {a:,}, set 2 {b:,}")
        for score, (a, b) in enumerate(zip(first, second, strict=True), start=1)
    ]
    means = [sum(s * c for s, c in enumerate(counts, start=1)) / n for counts in (first, second)]
    return Card(
        name,
        (Line("", "", plots.columns(rows, name, as_percent=True)),),
        legend=(
            ("key-1", f"set 1, mean {means[0]:.2f}"),
            ("key-2", f"set 2, mean {means[1]:.2f}"),
        ),
    )


def side_card(answers: Sequence[AnswerRow]) -> Card:
    name = "Preference for set 1"
    share, ties = figures.side_share(answers)
    if share is None:
        return Card(name, empty=figures.NEEDS)
    if share.reason:
        return Card(name, empty="No preference yet")
    low, high = share.ci
    plot = plots.interval(
        share.rate, share.ci, (0, 0.25, 0.5, 0.75, 1), 0.5, "Share that prefers set 1"
    )
    note = f"of {share.n:,}; 95 % interval {100 * low:.1f} to {percent(high)}"
    tied = (f"{ties:,} without a preference",) if ties else ()
    return Card(name, (Line(percent(share.rate), note, plot),), (*tied, side_verdict(share)))


def side_verdict(share: Proportion) -> str:
    if share.ci[0] <= 0.5 <= share.ci[1]:
        return "The interval includes one half: no sign of a side bias."
    return "The interval does not include one half: check for a side bias."


def agreement_card(answers: tuple[AnswerRow, ...]) -> Card:
    name = "Agreement (Krippendorff's alpha)"
    agreements = figures.agreements_of(answers)
    if agreements is None:
        return Card(name, empty=figures.NEEDS)
    lines = (
        alpha_line(agreements.scores, "Scores, ordinal", "sets"),
        alpha_line(agreements.preferences, "Preferences, nominal", "pairs"),
    )
    note = "95 % intervals over people and queries; only what at least two people have judged"
    left_out = f"Preferences: without {agreements.n_identical:,} answers about two identical sets"
    return Card(name, lines, (note, left_out) if agreements.n_identical else (note,))


def alpha_line(agreement: Agreement, label: str, unit: str) -> Line:
    """One alpha with its interval, or why it is undefined."""
    if isnan(agreement.alpha):
        return Line("", f"{label}: undefined; {agreement.reason}", Markup(""))
    ci = agreement.ci
    ends = (nan, nan) if ci is None else (ci.low, ci.high)
    note = f"{label}; {ends[0]:.2f} to {ends[1]:.2f}, from {agreement.n_units:,} {unit}"
    if ci is not None and ci.reason is not None:
        note = f"{label}; {ci.reason}"
    plot = plots.interval(agreement.alpha, ends, (-0.5, 0, 0.5, 1), 0, label)
    return Line(f"{agreement.alpha:.2f}", note, plot)


def checks_card(checks: Sequence[CheckResult]) -> Card:
    lines = []
    for kind, label in CHECK_NAMES.items():
        results = [check.passed for check in checks if check.kind == kind]
        passed, failed = results.count(True), results.count(False)
        counts = f"{passed:,} passed, {failed:,} failed" if results else "none answered yet"
        note = f"{label}: {counts}"
        plot = plots.split_bar([("passed", passed), ("failed", failed)], note)
        lines.append(Line("", note, plot))
    notes = ("Sums are repeated until they are right, so they do not count as failed checks.",)
    legend = (("passed", "passed"), ("failed", "failed"))
    return Card("Checks", tuple(lines), notes, legend)
