"""The dashboard's cards: headline numbers, plots by question kind, and numbers in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from math import ceil, isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from markupsafe import Markup
from sqlalchemy import select
from sqlalchemy.orm import Session

from hsfiq.annotate.image_copies import ImageStore
from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.plots import NEEDS, percent, render_fragment, seconds
from hsfiq.answer_rules import HIGHEST_SCORE
from hsfiq.collect.checks import CheckResult
from hsfiq.collect.progress import AnswerRow, Headline
from hsfiq.collect.retrievers import TURN_TIMEOUT
from hsfiq.collect.review import SystemPair, win_shares
from hsfiq.db.schema import head_revision
from hsfiq.db.search_tables import SearchItem, SearchList, SearchTurn
from hsfiq.db.source_tables import Image, ImageChange, System
from hsfiq.db.tables import Pair, Question, Study
from hsfiq.errors import NothingToDo
from hsfiq.images.folder import Fault
from hsfiq.images.store import StoreObject
from hsfiq.kinds import KINDS, release_kinds_of
from hsfiq.kinds.search import MOST_POINTS
from hsfiq.releases.content import FIRST_VERSION, Source, write_files
from hsfiq.study.config import StudyConfig, n_sets_of
from hsfiq.study.filters import Filters
from hsfiq.study.images import dataset_of

if TYPE_CHECKING:
    from hsfiq.analysis.kinds.kind import Figures
    from hsfiq.analysis.resampling.bootstrap import Estimate
    from hsfiq.analysis.sequential import WatchedPreference
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
    median = plots.times_of([answer for answer in answers if answer.counts]).median
    failed = sum(not check.passed for check in checks)
    return render_fragment(
        "tiles.html",
        tiles=[
            answered_tile(headline),
            Tile(
                "Pace",
                f"{plots.rate_of(answers, now).in_last_hour:,}",
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
    end = plots.projected_end(counting, progress.questions - progress.answered, now)
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
    rate = plots.rate_of(answers, now)
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
    times, name = plots.times_of(answers), "Active seconds per question"
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
    first, second = plots.scores_of(answers, points)
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
    share, ties = plots.side_share(answers)
    if share is None:
        return Card(name, empty=plots.NEEDS)
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
    agreements = plots.agreements_of(answers)
    if agreements is None:
        return Card(name, empty=plots.NEEDS)
    from hsfiq.analysis.kinds.kind import Figures  # noqa: PLC0415 (the extra may be absent)
    from hsfiq.analysis.resampling.bootstrap import Estimate  # noqa: PLC0415 (as above)

    of_both = {
        "Scores, ordinal": agreements.scores,
        "Preferences, nominal": agreements.preferences,
    }
    rows = {
        label: {"alpha": Estimate(each.alpha, each.n_units, each.ci, each.reason)}
        for label, each in of_both.items()
    }
    method = "Only what at least two people have judged; n counts sets and pairs of sets."
    if agreements.n_identical:
        method += f" Preferences: without {agreements.n_identical:,} answers about identical sets."
    return card_of(Figures("agreement", name, "answers", rows, method), ALPHA)


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


# Cards of figures: each figure with its interval, on the axis of its table.

Ends = tuple[float, float]

SHARES = (0, 0.25, 0.5, 0.75, 1)
ALL = "all"
BY_SYSTEM = (
    "outcomes",
    "ratings",
    "stops",
    "effort",
    "texts",
    "satisfaction",
    "changes",
    "nearest",
)
ALPHA = (-0.5, 0, 0.5, 1)
CORRELATION = (-1, -0.5, 0, 0.5, 1)
UNKNOWN: Ends = (float("nan"), float("nan"))


def kind_cards(tables: Sequence[Figures] | None, config: StudyConfig) -> tuple[Card, ...]:
    """A card for each table that has a row; `tables` is as `KindFigures.of` returns it."""
    if tables is None:
        return (Card("Answers", empty=NEEDS),)
    return tuple(card_of(table, ticks_of(table, config)) for table in tables if table.rows)


def card_of(table: Figures, ticks: Sequence[float]) -> Card:
    from hsfiq.analysis.kinds.kind import REFERENCES  # noqa: PLC0415 (the extra may be absent)

    mark, meaning = REFERENCES.get(table.name, (None, ""))
    lines = tuple(
        line_of(label_of(table, name, column), estimate, ticks, mark)
        for name, row in rows_of(table).items()
        for column, estimate in row.items()
    )
    dashed = (f"Dashed: {meaning}",) if meaning else ()
    return Card(table.title, lines, (*dashed, f"{table.method} 95 % intervals."))


def rows_of(table: Figures) -> Mapping[str, Mapping[str, Estimate]]:
    """Without those over all systems, where there are several: of searches they are many."""
    if table.name not in BY_SYSTEM:
        return table.rows
    rows = {name: row for name, row in table.rows.items() if name != ALL}
    return {name: {c: e for c, e in row.items() if c != ALL} or row for name, row in rows.items()}


def label_of(table: Figures, row: str, column: str) -> str:
    name = f"{table.rows_are} {row}" if row.isdigit() else row
    return name if len(table.columns) == 1 else f"{name}, {column}"


def line_of(label: str, estimate: Estimate, ticks: Sequence[float], mark: float | None) -> Line:
    """A figure with its interval, or why it is undefined."""
    if isnan(estimate.value):
        return Line("", f"{label}: undefined; {estimate.reason}", Markup(""))
    ci = estimate.ci
    ends: Ends = UNKNOWN if ci is None else (ci.low, ci.high)
    spread = "" if isnan(ends[0]) else f"{ends[0]:z.2f} to {ends[1]:z.2f}, "
    if ci is not None and ci.reason is not None:
        spread = f"{ci.reason}, "
    plot = plots.interval(estimate.value, ends, ticks, mark, label)
    return Line(f"{estimate.value:z.2f}", f"{label}; {spread}n = {estimate.n:,}", plot)


def ticks_of(table: Figures, config: StudyConfig) -> Sequence[float]:
    """The ticks of a table's axis; the first and the last are its ends."""
    if table.name == "effort":
        return (0, max(1, ceil(max(values_in(table), default=1))))
    if table.name in ("changes", "strengths"):
        end = max(1, ceil(max(map(abs, values_in(table)), default=1)))
        return (-end, 0, end)
    axes: dict[str, Sequence[float]] = {
        "mean_scores": range(1, config.wording.points + 1),
        "mean_ranks": range(1, n_sets_of(config.design) + 1),
        "agreement": ALPHA,
        "correlation": CORRELATION,
        "ratings": range(1, MOST_POINTS + 1),
        "satisfaction": range(1, MOST_POINTS + 1),
    }
    return axes.get(table.name, SHARES)


def values_in(table: Figures) -> list[float]:
    """The figures of a table and the ends of their intervals, as far as they are defined."""
    estimates = [estimate for row in table.rows.values() for estimate in row.values()]
    values = [estimate.value for estimate in estimates]
    values += [end for e in estimates if e.ci is not None for end in (e.ci.low, e.ci.high)]
    return [value for value in values if not isnan(value)]


# The figures of a study's kind, as `hsfiq analyze` computes them for a release of its answers.

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The latest figures of each study, kept until somebody answers."""

    latest: dict[int, tuple[tuple[AnswerRow, ...], list[Figures]]] = field(default_factory=dict)

    def of(
        self, session: Session, study: Study, answers: Sequence[AnswerRow]
    ) -> list[Figures] | None:
        """The figures of these answers, empty without any; None without the analysis extra."""
        try:
            from hsfiq.analysis.kinds import STATISTICS  # noqa: PLC0415 (the extra may be absent)
        except ModuleNotFoundError:
            return None
        if study.kind not in STATISTICS:
            return []
        given = tuple(answers)
        known = self.latest.get(study.id)
        if known is None or known[0] != given:
            known = given, computed(session, study)
            self.latest[study.id] = known
        return known[1]


def computed(session: Session, study: Study) -> list[Figures]:
    """The figures of a release of the study as it is now."""
    from hsfiq.analysis.analyze import load_kind_inputs  # noqa: PLC0415 (the extra may be absent)

    if KINDS[study.kind].n_live > 1:
        return []  # an arena has its leaderboard
    (kind,) = release_kinds_of(study.kind)
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = Source(session, study, kind, Filters())
        try:
            write_files(source, folder, schema_revision=head_revision(), version=FIRST_VERSION)
        except NothingToDo:
            return []
        inputs = load_kind_inputs(folder, [], n_resamples=RESAMPLES)
        return inputs.statistics.figures(inputs.release, inputs.metrics, inputs.bootstrap)


# How the live retrievers of a study answer: how fast, and how often not.

RETRIEVERS = "Retrievers"
NOTES = (
    (
        f"Late: the list came more than {TURN_TIMEOUT:g} seconds after the text, as when the "
        "retriever was down and asked again. Missing: it has not come for longer than that."
    ),
    "Median and 95th percentile of how long the retriever took for the lists that came.",
)
OF_ARENAS = (
    "The lists of a turn are stored together, so a late or missing one counts for both systems."
)
LEGEND = (("passed", "in time"), ("failed", "late or missing"))


@dataclass(slots=True)
class Answers:
    """What one retriever answered.

    `missing` counts the turns whose list should be there by now.
    """

    seconds: list[float] = field(default_factory=list)
    late: int = 0
    missing: int = 0

    def add(self, asked_at: datetime, listed: SearchList | None, now: datetime) -> None:
        """Count a turn; None is a list that has not come."""
        is_late = (listed.listed_at if listed else now) - asked_at > timedelta(seconds=TURN_TIMEOUT)
        if listed is None:
            self.missing += is_late
        else:
            self.seconds.append(listed.seconds)
            self.late += is_late

    def within(self, share: float) -> float:
        """The time within which this share of the lists came."""
        return sorted(self.seconds)[ceil(share * len(self.seconds)) - 1]


def retrievers_card(session: Session, study: Study, now: datetime) -> Card:
    """A line for each retriever, by name."""
    answers = answers_of(session, study, now)
    if not answers:
        return Card(RETRIEVERS, empty="No retriever has been asked yet")
    lines = tuple(retriever_line(name, own) for name, own in sorted(answers.items()))
    notes = (*NOTES, OF_ARENAS) if KINDS[study.kind].n_live > 1 else NOTES
    return Card(RETRIEVERS, lines, notes, LEGEND)


def answers_of(session: Session, study: Study, now: datetime) -> Mapping[str, Answers]:
    rows = session.execute(
        select(System.name, SearchTurn.asked_at, SearchList)
        .join(Question, SearchTurn.question_id == Question.id)
        .join(Pair, Question.pair_id == Pair.id)
        .join(SearchItem, SearchItem.pair_id == Pair.id)
        .join(System, SearchItem.system_id == System.id)
        .outerjoin(
            SearchList,
            (SearchList.turn_id == SearchTurn.id) & (SearchList.side == SearchItem.side),
        )
        .where(Pair.study_id == study.id)
    )
    answers: dict[str, Answers] = defaultdict(Answers)
    for name, asked_at, listed in rows:
        answers[name].add(asked_at, listed, now)
    return answers


def retriever_line(name: str, answers: Answers) -> Line:
    n = len(answers.seconds)
    failed = answers.late + answers.missing
    note = f"{name}; {n:,} lists, {answers.late:,} late, {answers.missing:,} missing"
    value = ""
    if n:
        value = f"{answers.within(0.5):.2f} s"
        note = f"{name}; 95 % within {answers.within(0.95):.2f} s; {note.partition('; ')[2]}"
    plot = plots.split_bar([("passed", n - answers.late), ("failed", failed)], note)
    return Line(value, note, plot)


# The dashboard's card of preferences between systems, with their confidence sequences.

PREFERENCE = "Preference between systems"
MOST_CHARTS, MOST_LINES = 2, 6
"""With up to so many pairs of systems each has a chart over time; so many pairs have a line."""
MOST_STEPS = 100
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 110, 30, 12, 8, 18

Shares = tuple[tuple[SystemPair, tuple[tuple[float, int], ...]], ...]


def preferences_card(session: Session, study: Study) -> Card:
    """The rate of every two systems that the study compares, which may be watched and acted on."""
    shares = win_shares(session, study)
    if not shares.by_pair:
        return Card(PREFERENCE, empty="The sets name no two systems")
    by_pair = tuple((pair, tuple(own)) for pair, own in shares.by_pair.items())
    watched = watched_preferences(by_pair, shares.n_earlier)
    if watched is None:
        return Card(PREFERENCE, empty=NEEDS)
    if shares.n_finished == 0:
        return Card(PREFERENCE, empty="Nobody has finished yet")
    ordered = sorted(watched, key=lambda each: (each.preferred is None, -abs(each.rate - 0.5)))
    has_charts = len(watched) <= MOST_CHARTS
    lines = [preference_line(each, has_chart=has_charts) for each in ordered[:MOST_LINES]]
    more = len(ordered) - MOST_LINES
    notes = [f"{more:,} more pairs: see hsfiq study status."] if more > 0 else []
    return Card(PREFERENCE, tuple(lines), (*notes, *shares.notes()))


def too_many_answers_card(study: Study) -> Card:
    return Card(PREFERENCE, empty=f"Too many answers: run hsfiq study status --study {study.name}")


@lru_cache(maxsize=8)
def watched_preferences(shares: Shares, n_earlier: int) -> tuple[WatchedPreference, ...] | None:
    """The sequences, computed once for the same answers; None without the analysis extra."""
    try:
        from hsfiq.analysis.sequential import watch_preferences  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None
    return tuple(watch_preferences(dict(shares), n_earlier))


def preference_line(watched: WatchedPreference, *, has_chart: bool) -> Line:
    label = f"prefer {watched.system} to {watched.other}"
    if watched.n_participants == 0:
        return Line("", f"{label}: {watched.reason}", Markup(""))
    people = f"{watched.n_participants:,} finished"
    if watched.preferred is None:
        decision = "undecided"
    else:
        decision = f"decided after {watched.decided_after:,}: {watched.preferred} is preferred"
    ends = (watched.low[-1], watched.high[-1])
    if watched.reason is None:
        note = f"{label}; {100 * ends[0]:.1f} to {percent(ends[1])}, {people}, {decision}"
    else:
        note = f"{label}; {watched.reason}; {people}, {decision}"
    ticks = (0, 0.25, 0.5, 0.75, 1)
    plot = (
        band(watched, f"Intervals after each participant: {note}")
        if has_chart
        else plots.interval(watched.rate, ends, ticks, 0.5, note)
    )
    return Line(percent(watched.rate), note, plot)


def band(watched: WatchedPreference, name: str) -> Markup:
    """The intervals over the number of participants, and a dashed line at one half."""
    n = watched.n_participants
    n_drawn = next((k for k, low in enumerate(watched.low) if isnan(low)), n)  # until it is NaN
    bottom, right = HEIGHT - BOTTOM, plots.WIDTH - RIGHT
    step = (right - LEFT) / n

    def x_of(number: float) -> float:
        return round(LEFT + step * number, 1)

    def y_of(share: float) -> float:
        return round(bottom - (bottom - TOP) * share, 1)

    every = -(-n // MOST_STEPS)
    steps = [*range(0, n_drawn, every), n_drawn]
    low = [(k, watched.low[k - 1] if k else 0.0) for k in steps]
    high = [(k, watched.high[k - 1] if k else 1.0) for k in steps]
    return render_fragment(
        "plot_band.html",
        name=name,
        width=plots.WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=right,
        top=TOP,
        bottom=bottom,
        grid=[(y_of(share), f"{share:g}") for share in (0, 0.5, 1)],
        half=y_of(0.5),
        points=" ".join(f"{x_of(k)},{y_of(share)}" for k, share in (*low, *reversed(high))),
        decided=None if watched.decided_after is None else x_of(watched.decided_after),
        labels=[(x_of(k), f"{k:,}") for k in (0, n)],
        slots=[
            (
                x_of(k - every),
                round(step * every, 1),
                f"after {k:,}: {watched.low[k - 1]:.3f} to {watched.high[k - 1]:.3f}",
            )
            for k in range(every, n_drawn + 1, every)
        ],
    )


# The dashboard's card of images whose files have changed since their digests were recorded.

CHANGED_IMAGES = "Changed images"
IMAGES_LISTED = 20


def changed_images_card(session: Session, study: Study, images: ImageStore) -> Card | None:
    """The images of the study's dataset that are not shown, with their paths; None if all are."""
    paths, more = changed_files(session, study, images)
    if not paths:
        return None
    notes = [
        (
            "These files are not shown, because they have other bytes than when their digests were "
            f"recorded. Restore them, or run hsfiq images check --study {study.name}, with "
            "--accept to show them as they are now."
        ),
        *(f"{name}: {path}" for name, path in paths),
    ]
    return Card(CHANGED_IMAGES, notes=(*notes, *([f"and {more:,} more"] if more else [])))


def changed_files(
    session: Session, study: Study, images: ImageStore
) -> tuple[list[tuple[str, Path | str | None]], int]:
    """The first changed images with their paths, and the number of further ones.

    A file that has been restored is left out.
    """
    dataset = dataset_of(session, study)
    if dataset is None:
        return [], 0
    rows = session.scalars(
        select(Image)
        .join(ImageChange, ImageChange.image_id == Image.id)
        .where(Image.dataset_id == dataset.id)
        .order_by(Image.name)
    ).all()
    listed: list[tuple[str, Path | str | None]] = []
    for number, image in enumerate(rows):
        if len(listed) == IMAGES_LISTED:
            return listed, len(rows) - number
        copy = images.file_of(session, image)
        if isinstance(copy, Fault) and copy.kind == "changed":
            source = images.source_of(image)
            listed.append(
                (image.name, "in its store" if isinstance(source, StoreObject) else source)
            )
    return listed, 0
