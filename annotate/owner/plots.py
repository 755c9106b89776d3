"""Small plots as SVG, and other fragments of the dashboard's pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isnan
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from markupsafe import Markup

from hsfiq.annotate.pages import TEMPLATES, render
from hsfiq.answer_rules import LOWEST_SCORE
from hsfiq.collect.progress import AnswerRow
from hsfiq.ids import set_id

if TYPE_CHECKING:
    import pandas as pd

    from hsfiq.analysis.people.agreement import Agreement
    from hsfiq.analysis.statistics.preference import Proportion


# The numbers behind the dashboard's plots; statistics come from hsfiq.analysis.

LONGEST_BY_HOUR = timedelta(hours=72)
PACE_OF = timedelta(days=1)
LEAST_FOR_PACE = 5
MOST_BINS = 16
WIDTHS = (1, 2, 5, 10, 20, 30, 60, 120, 300)
NEEDS = "needs the analysis extra: pip install 'hsfiq[analysis]'"


@dataclass(frozen=True, slots=True)
class Rate:
    """How many answers came in each hour, or in each day of a longer study."""

    unit: str
    starts: tuple[datetime, ...]
    counts: tuple[int, ...]
    in_last_hour: int


def rate_of(answers: Sequence[AnswerRow], now: datetime) -> Rate:
    """Count the answers by the hour or day of their first submit."""
    moments = sorted(answer.submitted_at for answer in answers if answer.submitted_at)
    recent = sum(now - timedelta(hours=1) <= at for at in moments)
    if not moments:
        return Rate("hour", (), (), 0)
    by_hour = moments[-1] - moments[0] <= LONGEST_BY_HOUR
    step = timedelta(hours=1) if by_hour else timedelta(days=1)
    first = floor(moments[0], step)
    slots = Counter((at - first) // step for at in moments)
    n_slots = (moments[-1] - first) // step + 1
    return Rate(
        "hour" if by_hour else "day",
        tuple(first + slot * step for slot in range(n_slots)),
        tuple(slots[slot] for slot in range(n_slots)),
        recent,
    )


def projected_end(answers: Sequence[AnswerRow], n_left: int, now: datetime) -> datetime | None:
    """When the questions left will be answered at the pace of the last day.

    None if fewer than `LEAST_FOR_PACE` answers show a pace, or nothing is left.
    """
    recent = [at for a in answers if (at := a.submitted_at) and now - PACE_OF <= at <= now]
    if n_left <= 0 or len(recent) < LEAST_FOR_PACE or min(recent) == now:
        return None
    return now + n_left * (now - min(recent)) / len(recent)


def floor(at: datetime, step: timedelta) -> datetime:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    return start + (at - start) // step * step


@dataclass(frozen=True, slots=True)
class Times:
    """How long questions took: bins of `width` seconds, the last for all that took longer."""

    width: int
    counts: tuple[int, ...]
    median: float | None


def times_of(answers: Sequence[AnswerRow]) -> Times:
    """Count the active seconds of the first revisions."""
    values = sorted(a.active_seconds for a in answers if a.active_seconds is not None)
    if not values:
        return Times(WIDTHS[0], (), None)
    usual = values[int(0.97 * (len(values) - 1))]
    width = next((width for width in WIDTHS if usual <= width * MOST_BINS), WIDTHS[-1])
    last = min(MOST_BINS, int(usual // width) + 1)
    counts = Counter(min(int(value // width), last) for value in values)
    return Times(width, tuple(counts[bin_] for bin_ in range(last + 1)), median(values))


def scores_of(answers: Sequence[AnswerRow], points: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How often each score of the scale was given to set 1, and to set 2."""
    scale = range(LOWEST_SCORE, points + 1)
    first = Counter(answer.scores[0] for answer in answers if answer.scores)
    second = Counter(answer.scores[1] for answer in answers if answer.scores)
    return tuple(first[score] for score in scale), tuple(second[score] for score in scale)


def side_share(answers: Sequence[AnswerRow]) -> tuple[Proportion | None, int]:
    """The share that prefers set 1, with its exact interval (None without the analysis extra).

    The second value is the number of ties.
    """
    preferred = Counter(answer.preferred for answer in answers)
    try:
        from hsfiq.analysis.statistics.preference import exact_proportion  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None, preferred[0]
    return exact_proportion(preferred[1], preferred[1] + preferred[2]), preferred[0]


@dataclass(frozen=True, slots=True)
class Agreements:
    """Krippendorff's alpha of scores (ordinal) and of preferences (nominal).

    `n_identical` is the number of questions left out of the latter, whose two sets are identical.
    """

    scores: Agreement
    preferences: Agreement
    n_identical: int


@lru_cache(maxsize=8)
def agreements_of(answers: tuple[AnswerRow, ...]) -> Agreements | None:
    """The agreement that `hsfiq analyze --details` prints for a release of these answers.

    Checks are excluded: their pairs are repeated or planted. The result for the same answers is
    cached, so the bootstrap does not run again until somebody answers.
    """
    try:
        from hsfiq.analysis.data.columns import set_units  # noqa: PLC0415 (the extra may be absent)
        from hsfiq.analysis.people import agreement  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None
    plain = [answer for answer in answers if answer.check is None and answer.scores]
    plain.sort(key=attrgetter("position"))
    sets, preferences = released_sets(plain), released_preferences(plain)
    triplets = sets["query_id"].drop_duplicates().set_axis(sets["query_id"].unique())
    units = set_units(sets, triplets)
    return Agreements(
        agreement.agreement(agreement.score_ratings(sets, units, triplets), "ordinal"),
        agreement.agreement(agreement.preference_ratings(preferences, units, triplets), "nominal"),
        int(agreement.has_identical_sets(preferences, units).sum()),
    )


def released_sets(answers: Sequence[AnswerRow]) -> pd.DataFrame:
    """The columns of a release's `sets` that agreement depends on, with triplets as queries."""
    import pandas as pd  # noqa: PLC0415 (the extra may be absent)

    return pd.DataFrame(
        [
            (set_id(answer.question_id, side), answer.participant, answer.triplet, images, score)
            for answer in answers
            for side, images, score in zip((1, 2), answer.sets, answer.scores or (), strict=True)
        ],
        columns=["set_id", "participant_id", "query_id", "image_ids", "score"],
    )


def released_preferences(answers: Sequence[AnswerRow]) -> pd.DataFrame:
    """The columns of `preferences` that agreement depends on, with triplets as queries."""
    import pandas as pd  # noqa: PLC0415 (the extra may be absent)

    return pd.DataFrame(
        [
            (
                answer.participant,
                answer.triplet,
                *(set_id(answer.question_id, side) for side in (1, 2)),
                answer.preferred,
            )
            for answer in answers
        ],
        columns=["participant_id", "query_id", "set_1", "set_2", "preferred"],
    )


# HTML fragments for the dashboard, and how it writes numbers, times and durations.
#
# Gradio fills in `${...}` and `{{...}}` in the HTML that it is given, so these signs are written as
# character references: text from data stays text.

DASH = "\N{EN DASH}"

GRADIO_SIGNS = str.maketrans({"{": "&#123;", "}": "&#125;", "$": "&#36;", "`": "&#96;"})


def render_fragment(template: str, **values: object) -> Markup:
    """The template with these values, safe to show through Gradio."""
    return Markup(render(template, **values).translate(GRADIO_SIGNS))  # noqa: S704 (autoescaped)


def line(text: str, css_class: str, *, role: str = "", strong: str = "") -> Markup:
    return render_fragment("line.html", line=text, css_class=css_class, role=role, strong=strong)


def empty(text: str) -> Markup:
    """The line in place of a table or an answer that is missing."""
    return line(text, "empty")


def moment(at: datetime | None) -> str:
    """A moment to the second, in UTC."""
    return DASH if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def since(at: datetime | None, now: datetime) -> str:
    """How long ago a moment was, in the largest unit that fits."""
    if at is None:
        return DASH
    elapsed = max((now - at).total_seconds(), 0.0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if elapsed >= size:
            return f"{elapsed // size:.0f} {unit} ago"
    return "now"


def seconds(value: float | None) -> str:
    """A duration; from 100 s on in minutes."""
    if value is None:
        return DASH
    return f"{value:.0f} s" if value < 100 else f"{value / 60:.1f} min"


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


TEMPLATES.filters |= {"moment": moment, "since": since, "seconds": seconds}


WIDTH, HEIGHT = 360, 150
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 10, 22
"""Margins around the bars."""


@dataclass(frozen=True, slots=True)
class Column:
    """One slot of the horizontal axis: a label (may be empty), the heights of its bars, a text."""

    label: str
    heights: tuple[float, ...]
    tooltip: str


def columns(rows: Sequence[Column], name: str, *, as_percent: bool = False) -> Markup:
    """A bar chart; several heights of a column are shown side by side."""
    highest = max((max(row.heights) for row in rows), default=0)
    step = nice_step(highest, as_percent=as_percent)
    top = max(step, -(-highest // step) * step)
    bottom, scale = HEIGHT - BOTTOM, (HEIGHT - TOP - BOTTOM) / top
    grid = [
        (
            round(bottom - scale * line * step, 1),
            f"{100 * line * step:.0f}%" if as_percent else f"{line * step:.0f}",
        )
        for line in range(round(top / step) + 1)
    ]
    slot = (WIDTH - LEFT - RIGHT) / max(len(rows), 1)
    slots, bars = [], []
    for index, row in enumerate(rows):
        x = LEFT + slot * index
        slots.append(
            {
                "x": round(x, 1),
                "width": round(slot, 1),
                "middle": round(x + slot / 2, 1),
                "label": row.label,
                "tooltip": row.tooltip,
            }
        )
        width = slot * (0.86 if len(rows) > 8 else 0.7) / len(row.heights)
        start = x + (slot - width * len(row.heights)) / 2
        bars += [
            {
                "number": number + 1,
                "x": round(start + width * number, 1),
                "y": round(bottom - scale * height, 1),
                "width": round(max(width - 1, 1), 1),
                "height": round(scale * height, 1),
            }
            for number, height in enumerate(row.heights)
        ]
    return render_fragment(
        "plot_columns.html", name=name, width=WIDTH, height=HEIGHT, left=LEFT, right=WIDTH - RIGHT,
        top=TOP, bottom=bottom, grid=grid, slots=slots, bars=bars,
    )  # fmt: skip


def nice_step(highest: float, *, as_percent: bool) -> float:
    """The distance of the grid lines: 1, 2 or 5 times a power of ten, at most four lines."""
    step = 0.1 if as_percent else 1.0
    for factor in (2, 2.5, 2) * 6:
        if highest <= 4 * step:
            break
        step *= factor
    return step


def interval(
    value: float, ends: tuple[float, float], ticks: Sequence[float], mark: float | None, name: str
) -> Markup:
    """A value with its interval on an axis, and a dashed line at the neutral value, if any.

    A NaN in `value` or `ends` is not drawn. The first and last of `ticks` are the ends of the axis.
    """
    margin = 12

    def x_of(number: float) -> float:
        share = (min(max(number, ticks[0]), ticks[-1]) - ticks[0]) / (ticks[-1] - ticks[0])
        return round(margin + (WIDTH - 2 * margin) * share, 1)

    return render_fragment(
        "plot_interval.html",
        name=name,
        width=WIDTH,
        left=margin,
        right=WIDTH - margin,
        ticks=[(x_of(tick), f"{tick:g}") for tick in ticks],
        mark=None if mark is None else x_of(mark),
        ends=None if isnan(ends[0]) else (x_of(ends[0]), x_of(ends[1])),
        dot=None if isnan(value) else x_of(value),
    )


def split_bar(shares: Sequence[tuple[str, int]], name: str) -> Markup:
    """One bar in parts; `shares` are `(CSS class, count)`, and a part is as wide as its count."""
    total = sum(count for _, count in shares) or 1
    parts, x = [], 0.0
    for css_class, count in shares:
        width = WIDTH * count / total
        parts.append(
            {
                "css_class": css_class,
                "x": round(x, 1),
                "width": round(width, 1),
                "tooltip": f"{count:,}",
            }
        )
        x += width
    return render_fragment("plot_split_bar.html", name=name, width=WIDTH, parts=parts)


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its interval and what it is of; a NaN is not drawn."""

    label: str
    value: float
    ends: tuple[float, float]


def intervals(rows: Sequence[Interval], mark: float, name: str) -> Markup:
    """Values with their intervals below each other, and a dashed line at the neutral value."""
    margin, row_height = 16, 40
    numbers = [number for row in rows for number in (row.value, *row.ends) if not isnan(number)]
    farthest = max((abs(number - mark) for number in numbers), default=1.0)
    step = nice_step(farthest, as_percent=True)
    n_steps = -(-farthest // step)
    reach, middle = n_steps * step, WIDTH / 2

    def x_of(number: float) -> float:
        return round(middle + (middle - margin) * (number - mark) / reach, 1)

    bottom = row_height * len(rows)
    return render_fragment(
        "plot_intervals.html",
        name=name,
        width=WIDTH,
        height=bottom + BOTTOM,
        bottom=bottom,
        ticks=[
            (x_of(mark + step * number), f"{mark + step * number:g}")
            for number in range(round(-n_steps), round(n_steps) + 1)
        ],
        mark=x_of(mark),
        left=margin,
        rows=[
            {
                "label": row.label,
                "top": row_height * number + 14,
                "y": row_height * number + 26,
                "ends": None if isnan(row.ends[0]) else [x_of(end) for end in row.ends],
                "dot": None if isnan(row.value) else x_of(row.value),
            }
            for number, row in enumerate(rows)
        ],
    )
