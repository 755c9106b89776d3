"""Small plots as SVG, and the format of shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from markupsafe import Markup

from hsfiq.annotate.pages import render

DASH = "\N{EN DASH}"


def render_fragment(template: str, **values: object) -> Markup:
    """A template with these values, to be put into a page."""
    return Markup(render(template, **values))  # noqa: S704 (autoescaped)


def percent(share: float) -> str:
    """A share with one decimal."""
    return f"{100 * share:.1f} %"


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
    """A value with its interval and its label; a NaN is not drawn."""

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
