"""The dashboard's card of preferences between systems, with their confidence sequences."""

from __future__ import annotations

from functools import lru_cache
from math import isnan
from typing import TYPE_CHECKING

from markupsafe import Markup
from sqlalchemy.orm import Session

from hsfiq.annotate.owner import plots
from hsfiq.annotate.owner.cards import Card, Line
from hsfiq.annotate.owner.figures import NEEDS
from hsfiq.annotate.owner.fragments import percent, render_fragment
from hsfiq.collect.review import SystemPair, win_shares
from hsfiq.db.tables import Study

if TYPE_CHECKING:
    from hsfiq.analysis.sequential import WatchedPreference

NAME = "Preference between systems"
MOST_CHARTS, MOST_LINES = 2, 6
"""With up to so many pairs of systems each has a chart over time; so many pairs have a line."""
MOST_STEPS = 100
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 110, 30, 12, 8, 18

Shares = tuple[tuple[SystemPair, tuple[tuple[float, int], ...]], ...]


def preferences_card(session: Session, study: Study) -> Card:
    """The rate of every two systems that the study compares, which may be watched and acted on."""
    shares = win_shares(session, study)
    if not shares.by_pair:
        return Card(NAME, empty="The sets name no two systems")
    by_pair = tuple((pair, tuple(own)) for pair, own in shares.by_pair.items())
    watched = watched_preferences(by_pair)
    if watched is None:
        return Card(NAME, empty=NEEDS)
    if shares.n_finished == 0:
        return Card(NAME, empty="Nobody has finished yet")
    ordered = sorted(watched, key=lambda each: (each.preferred is None, -abs(each.rate - 0.5)))
    has_charts = len(watched) <= MOST_CHARTS
    lines = [preference_line(each, has_chart=has_charts) for each in ordered[:MOST_LINES]]
    more = len(ordered) - MOST_LINES
    notes = [f"{more:,} more pairs: see hsfiq study status."] if more > 0 else []
    return Card(NAME, tuple(lines), (*notes, *shares.notes()))


def too_many_answers_card(study: Study) -> Card:
    return Card(NAME, empty=f"Too many answers: run hsfiq study status --study {study.name}")


@lru_cache(maxsize=8)
def watched_preferences(shares: Shares) -> tuple[WatchedPreference, ...] | None:
    """The sequences, computed once for the same answers; None without the analysis extra."""
    try:
        from hsfiq.analysis.sequential import watch_preferences  # noqa: PLC0415 (the extra may be absent)
    except ModuleNotFoundError:
        return None
    return tuple(watch_preferences(dict(shares)))


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
