"""Small plots as SVG: their colours are the page's, so they are right in light and in dark.

Every mark says its number when pointed at, and each plot has its numbers in words beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from hsfiq.annotate.owner.text import text

WIDTH, HEIGHT = 360, 150
LEFT, RIGHT, TOP, BOTTOM = 30, 12, 10, 22


@dataclass(frozen=True, slots=True)
class Column:
    """One place of the horizontal axis: a label (may be empty) and the heights of its bars."""

    label: str
    heights: tuple[float, ...]
    said: str


def svg(parts: Sequence[str], name: str, height: int = HEIGHT) -> str:
    """The parts as one picture with a name for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{text(name)}">'
        + "".join(parts)
        + "</svg>"
    )


def columns(rows: Sequence[Column], name: str, *, as_percent: bool = False) -> str:
    """Bars beside each other; several heights of a column stand side by side."""
    highest = max((height for row in rows for height in row.heights), default=0)
    step = nice_step(highest, as_percent=as_percent)
    top = max(step, -(-highest // step) * step)
    down = HEIGHT - TOP - BOTTOM
    parts = []
    for line in range(round(top / step) + 1):
        y = HEIGHT - BOTTOM - down * line * step / top
        label = f"{100 * line * step:.0f}%" if as_percent else f"{line * step:.0f}"
        parts.append(
            f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text class="tick" x="{LEFT - 5}" y="{y + 3:.1f}" text-anchor="end">{label}</text>'
        )
    slot = (WIDTH - LEFT - RIGHT) / max(len(rows), 1)
    for index, row in enumerate(rows):
        wide = slot * (0.86 if len(rows) > 8 else 0.7) / len(row.heights)
        start = LEFT + slot * index + (slot - wide * len(row.heights)) / 2
        for number, height in enumerate(row.heights):
            tall = down * height / top
            parts.append(
                f'<rect class="bar bar-{number + 1}" x="{start + wide * number:.1f}"'
                f' y="{HEIGHT - BOTTOM - tall:.1f}" width="{max(wide - 1, 1):.1f}"'
                f' height="{tall:.1f}" rx="1.5"/>'
            )
        # The whole column answers to the pointer, however low its bars are.
        parts.append(
            f'<rect class="sense" x="{LEFT + slot * index:.1f}" y="{TOP}" width="{slot:.1f}"'
            f' height="{down}"><title>{text(row.said)}</title></rect>'
        )
        if row.label:
            middle = LEFT + slot * (index + 0.5)
            parts.append(
                f'<text class="tick" x="{middle:.1f}" y="{HEIGHT - 7}" text-anchor="middle">'
                f"{text(row.label)}</text>"
            )
    return svg(parts, name)


def nice_step(highest: float, *, as_percent: bool) -> float:
    """The distance of the horizontal lines: 1, 2 or 5 times a power of ten, four at the most."""
    step = 0.1 if as_percent else 1.0
    for factor in (2, 2.5, 2) * 6:
        if highest <= 4 * step:
            break
        step *= factor
    return step


def interval(
    value: float, ends: tuple[float, float], ticks: Sequence[float], mark: float, name: str
) -> str:
    """A value with its interval on an axis, and a line where nothing would be the matter.

    Args:
        value: NaN draws the axis alone.
        ends: of the interval; NaN draws none.
        ticks: the numbers written at the axis; the first and the last are its ends.
        mark: where the line stands.
        name: what it is.
    """
    low, high = ticks[0], ticks[-1]
    tall, middle = 46, 15

    def at(number: float) -> float:
        inside = min(max(number, low), high)
        return 12 + (WIDTH - 24) * (inside - low) / (high - low)

    parts = [f'<line class="rule" x1="12" x2="{WIDTH - 12}" y1="30" y2="30"/>']
    parts += [
        f'<text class="tick" x="{at(tick):.1f}" y="43" text-anchor="middle">{tick:g}</text>'
        for tick in ticks
    ]
    parts.append(f'<line class="mark" x1="{at(mark):.1f}" x2="{at(mark):.1f}" y1="2" y2="30"/>')
    if not isnan(ends[0]):
        parts.append(
            f'<line class="whisker" x1="{at(ends[0]):.1f}" x2="{at(ends[1]):.1f}"'
            f' y1="{middle}" y2="{middle}"/>'
        )
    if not isnan(value):
        parts.append(f'<circle class="dot" cx="{at(value):.1f}" cy="{middle}" r="5"/>')
    return svg(parts, name, tall)


def split_bar(shares: Sequence[tuple[str, int]], name: str) -> str:
    """One bar in parts, `(class, count)` each, as wide as their counts."""
    total = sum(count for _, count in shares) or 1
    parts, x = [], 0.0
    for kind, count in shares:
        wide = WIDTH * count / total
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="0" width="{wide:.1f}" height="10">'
            f"<title>{count:,}</title></rect>"
        )
        x += wide
    return svg(parts, name, 10)
