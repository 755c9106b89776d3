"""The board's headline numbers and its plots, each with its numbers in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from math import isnan
from typing import TYPE_CHECKING

from hsfiq.annotate.owner import figures, plots
from hsfiq.annotate.owner.text import percent, seconds, text
from hsfiq.collect.checks import CheckResult
from hsfiq.collect.progress import AnswerRow, Headline, ParticipantRow

if TYPE_CHECKING:
    from hsfiq.analysis.statistics.agreement import Agreement
    from hsfiq.analysis.statistics.proportion import Proportion

KINDS = {"arithmetic": "Sums (tries)", "gold": "Gold pairs", "repeat": "Repeated pairs"}
FEW = 6
"""So many names or ids are written out; how many more there are is said."""


def standing_of(row: ParticipantRow) -> str:
    """The participant's status as the owner thinks of it: who has finished is not just active."""
    if row.status != "active":
        return row.status
    if row.questions == 0:
        return "invited"
    return "finished" if row.answered >= row.questions else "active"


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - FEW:,} more" if len(names) > FEW else ""
    return text(", ".join(names[:FEW]) + more)


# ------------------------------------------------------------------------------------------- tiles


def tiles(
    headline: Headline,
    people: Sequence[ParticipantRow],
    answers: Sequence[AnswerRow],
    checks: Sequence[CheckResult],
    now: datetime,
) -> str:
    """The row of headline numbers."""
    done = headline.answered / headline.questions if headline.questions else 0.0
    bar = f'<progress max="1" value="{done:.4f}" aria-label="Answered"></progress>'
    standings = Counter(map(standing_of, people))
    by_standing = ", ".join(f"{count:,} {name}" for name, count in standings.most_common())
    counting = [answer for answer in answers if answer.counts]
    median = figures.times_of(counting).median
    failed = sum(not check.passed for check in checks)
    stuck = f"lease over: {named(headline.late)}" if headline.late else "no lease is over"
    found = [
        tile(
            "Answered",
            f"{headline.answered:,}<small> of {headline.questions:,}</small>",
            f"{bar}{percent(done)}",
        ),
        tile(
            "Pace",
            f"{figures.rate_of(answers, now).in_last_hour:,}<small> in the last hour</small>",
            f"{seconds(median)} per question (median)",
        ),
        tile("Participants", f"{len(people):,}", by_standing or "nobody yet"),
        tile(
            "Left work",
            f"{headline.waiting:,}<small> to hand on</small>",
            stuck,
            warns=headline.waiting > 0,
        ),
        tile(
            "Checks failed",
            f"{failed:,}<small> of {len(checks):,}</small>",
            percent(failed / len(checks)) if checks else "none answered yet",
        ),
        tile(
            "Images missing",
            f"{len(headline.skipped):,}<small> skipped</small>",
            named(headline.skipped) or "every image was there",
            warns=bool(headline.skipped),
        ),
    ]
    return f'<div class="tiles">{"".join(found)}</div>'


def tile(name: str, number: str, note: str, *, warns: bool = False) -> str:
    """One number with its name and what it means; the three are HTML already."""
    kind = "tile warns" if warns else "tile"
    return (
        f'<section class="{kind}"><h3>{name}</h3><p class="number">{number}</p>'
        f'<p class="note">{note}</p></section>'
    )


# ------------------------------------------------------------------------------------------- plots


def cards(answers: Sequence[AnswerRow], checks: Sequence[CheckResult], now: datetime) -> str:
    """All plots; answers of excluded participants are in none of them but that of the checks.

    Planted and repeated pairs tell of attention only: scores, sides and times leave them out.
    """
    counting = tuple(answer for answer in answers if answer.counts)
    plain = tuple(answer for answer in counting if answer.check is None)
    found = [
        rate_card(counting, now),
        times_card(plain),
        scores_card(plain),
        side_card(plain),
        agreement_card(counting),
        checks_card(checks),
    ]
    return f'<div class="cards">{"".join(found)}</div>'


def card(name: str, figure: str, *notes: str) -> str:
    """A plot with its name above and its numbers in words below."""
    lines = "".join(f'<p class="note">{note}</p>' for note in notes if note)
    return f'<section class="card"><h3>{name}</h3>{figure}{lines}</section>'


def rate_card(answers: Sequence[AnswerRow], now: datetime) -> str:
    """Answers per hour, or per day of a long study."""
    rate = figures.rate_of(answers, now)
    name = f"Answers per {rate.unit}"
    if not rate.counts:
        return card(name, empty("No answer yet"))
    written = "%H:%M" if rate.unit == "hour" else "%d %b"
    every = -(-len(rate.starts) // 6)
    rows = [
        plots.Column(
            f"{start:{written}}" if index % every == 0 else "",
            (count,),
            f"{start:%Y-%m-%d %H:%M}: {count:,}",
        )
        for index, (start, count) in enumerate(zip(rate.starts, rate.counts, strict=True))
    ]
    span = f"{rate.starts[0]:%d %b %Y} to {rate.starts[-1]:%d %b %Y}, UTC"
    return card(
        name, plots.columns(rows, name), f"most in one {rate.unit}: {max(rate.counts):,}; {span}"
    )


def times_card(answers: Sequence[AnswerRow]) -> str:
    """How long questions took."""
    times, name = figures.times_of(answers), "Active seconds per question"
    if times.median is None:
        return card(name, empty("No times yet"))
    last = len(times.counts) - 1
    every = -(-len(times.counts) // 7)
    rows = []
    for index, count in enumerate(times.counts):
        low = index * times.width
        label = f"{low}+" if index == last else str(low)
        said = f"{low} s or more" if index == last else f"{low} to {low + times.width} s"
        shown = index == last or (index % every == 0 and last - index >= every / 2)
        rows.append(plots.Column(label if shown else "", (count,), f"{said}: {count:,}"))
    return card(
        name, plots.columns(rows, name), f"median {seconds(times.median)}, first answers only"
    )


def scores_card(answers: Sequence[AnswerRow]) -> str:
    """The scores of either side."""
    one, two = figures.scores_of(answers)
    n, name = sum(one), "Scores"
    if n == 0:
        return card(name, empty("No score yet"))
    rows = [
        plots.Column(str(score), (a / n, b / n), f"{score}: set 1 {a:,}, set 2 {b:,}")
        for score, a, b in zip(range(1, 6), one, two, strict=True)
    ]
    means = [sum(s * c for s, c in enumerate(counts, start=1)) / n for counts in (one, two)]
    legend = (
        f'<span class="key key-1"></span>set 1, mean {means[0]:.2f} &ensp;'
        f'<span class="key key-2"></span>set 2, mean {means[1]:.2f}'
    )
    return card(name, plots.columns(rows, name, as_percent=True), legend)


def side_card(answers: Sequence[AnswerRow]) -> str:
    """Whether people prefer a set for being shown first."""
    name = "Preference for set 1"
    share, ties = figures.side_share(answers)
    if share is None:
        return card(name, empty(text(figures.NEEDS)))
    if share.reason:
        return card(name, empty("No preference yet"))
    tied = f"{ties:,} without a preference" if ties else ""
    return card(name, side_rows(share), tied, side_verdict(share))


def side_rows(share: Proportion) -> str:
    """The share with its interval, on an axis and in words."""
    low, high = share.ci
    return (
        f'<p class="value">{percent(share.rate)}<small> of {share.n:,}; 95 % interval'
        f" {100 * low:.1f} to {percent(high)}</small></p>"
        + plots.interval(
            share.rate, share.ci, (0, 0.25, 0.5, 0.75, 1), 0.5, "Share in which set 1 is preferred"
        )
    )


def side_verdict(share: Proportion) -> str:
    """What the interval says of the sides."""
    if share.ci[0] <= 0.5 <= share.ci[1]:
        return "The interval holds one half: no sign of a side bias."
    return "The interval does not hold one half: look for a side bias."


def agreement_card(answers: tuple[AnswerRow, ...]) -> str:
    """Krippendorff's alpha where questions overlap."""
    name = "Agreement (Krippendorff's alpha)"
    both = figures.agreements_of(answers)
    if both is None:
        return card(name, empty(text(figures.NEEDS)))
    rows = [
        alpha_rows(one, label, unit)
        for one, label, unit in zip(
            both, ("Scores, ordinal", "Preferences, nominal"), ("sets", "pairs"), strict=True
        )
    ]
    note = "95 % intervals over queries; what two people or more have judged"
    return card(name, "".join(rows), note)


def alpha_rows(found: Agreement, label: str, unit: str) -> str:
    """One alpha with its interval, or why there is none."""
    if isnan(found.alpha):
        return f'<p class="value"><small>{label}: undefined; {text(found.reason)}</small></p>'
    if isnan(found.ci[0]):
        ends = text(found.reason)
    else:
        ends = f"{found.ci[0]:.2f} to {found.ci[1]:.2f}, from {found.n_units:,} {unit}"
    return (
        f'<p class="value">{found.alpha:.2f}<small> {label}; {ends}</small></p>'
        + plots.interval(found.alpha, found.ci, (-0.5, 0, 0.5, 1), 0, label)
    )


def checks_card(checks: Sequence[CheckResult]) -> str:
    """How the checks of each kind went."""
    name, rows = "Checks", []
    for kind, label in KINDS.items():
        results = [check.passed for check in checks if check.kind == kind]
        passed, failed = results.count(True), results.count(False)
        words = f"{passed:,} passed, {failed:,} failed" if results else "none answered yet"
        rows.append(f'<p class="value"><small>{label}: {words}</small></p>')
        rows.append(plots.split_bar([("passed", passed), ("failed", failed)], f"{label}: {words}"))
    legend = '<span class="key passed"></span>passed &ensp;<span class="key failed"></span>failed'
    return card(name, "".join(rows), legend)


def empty(what: str) -> str:
    """What stands where a plot has nothing to show."""
    return f'<p class="empty">{what}</p>'
