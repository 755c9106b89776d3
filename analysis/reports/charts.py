"""Charts drawn with matplotlib, in colours and marks that colour-blind readers can distinguish."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isnan
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from hsfiq.analysis.reports.document import Chart, NumberCell

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), "Color Universal Design"."""
MARKS = ("o", "s", "^", "D", "v", "P")
GREY, INK = "#9a9a9a", "#222222"
WIDTH = 6.4  # inches
ROW_HEIGHT = 0.3  # inches, of a row with one mark
LEGEND_WIDTH = 88  # characters
PANELS_PER_ROW = 4
ROW_LABEL, PANEL_TITLE = 30, 20  # the most characters of each
DASHED = (0, (4, 3))
DOTS_PER_INCH = 200
SIMULATED = "SIMULATED answers, not people's"

STYLE: dict[RcKeyType, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "hsfiq",
    "text.parse_math": False,  # names may hold dollar signs
}


def draw(chart: Chart, *, simulated: bool) -> Figure:
    """Draw a chart as a figure without a window; `simulated` adds a heading that says so."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=chart.size, layout="constrained")
        chart.paint(figure)
        if simulated:
            figure.suptitle(SIMULATED, fontsize=8, color=COLOURS[1], x=0.99, ha="right")
    return figure


def to_png(chart: Chart, *, simulated: bool) -> bytes:
    return _saved(draw(chart, simulated=simulated), "png", {"Software": None})


def to_svg(chart: Chart, *, simulated: bool) -> bytes:
    metadata = dict.fromkeys(("Date", "Creator", "Type", "Format"))
    return _saved(draw(chart, simulated=simulated), "svg", metadata)


def to_inline(chart: Chart, svg: bytes) -> str:
    """The SVG element of a page, from what `to_svg` returned.

    It is labelled by its caption and alternative text; its ids start with the chart's name, so that
    they are unique in the page.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{chart.name}-", text)
    labels = f'aria-labelledby="{chart.name}-caption" aria-describedby="{chart.name}-alt"'
    return text.replace("<svg ", f'<svg role="img" {labels} ', 1).strip()


def draw_intervals(
    axes: Axes,
    rows: Sequence[str],
    series: Mapping[str, Sequence[NumberCell]],
    *,
    colours: Sequence[str] = COLOURS,
) -> None:
    """Draw a dot with its interval for each row of each series, the first row on top.

    A series has a figure for each row; undefined figures are not drawn.
    """
    step = 0.7 / max(1, len(series))
    for index, (name, cells) in enumerate(series.items()):
        shift = (index - (len(series) - 1) / 2) * step
        heights = [row + shift for row, cell in enumerate(cells) if not isnan(cell.value)]
        defined = [cell for cell in cells if not isnan(cell.value)]
        colour, mark = colours[index % len(colours)], MARKS[index % len(MARKS)]
        values = [cell.value for cell in defined]
        axes.plot(values, heights, linestyle="", ms=5, color=colour, marker=mark, label=name)
        low, high = ([_bounds(cell)[side] for cell in defined] for side in (0, 1))
        axes.hlines(heights, low, high, color=colour, linewidth=1.6)
    labels = ["\n".join(shorten(line) for line in row.split("\n")) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def interval_chart(
    name: str,
    title: str,
    caption: str,
    alt: str,
    *,
    rows: Sequence[str],
    series: Mapping[str, Sequence[NumberCell]],
    x_label: str,
    reference: tuple[float, str],
    colours: Sequence[str] = COLOURS,
    margin: float = 1.2,
) -> Chart:
    """A chart of `draw_intervals`, with a dashed reference line at a value with a label.

    `margin` is the height in inches of everything but the rows.
    """

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        draw_intervals(axes, rows, series, colours=colours)
        draw_reference(axes, *reference)
        axes.set_xlabel(x_label)
        draw_legend(figure, axes)

    size = (WIDTH, intervals_height(len(rows), len(series), margin))
    return Chart(name, title, caption, alt, size, paint)


def draw_reference(axes: Axes, value: float, label: str) -> None:
    axes.axvline(value, color=INK, linewidth=1, linestyle=DASHED, label=label)


def draw_legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    longest = max((len(label) for label in labels), default=1)
    ncols = max(1, min(len(labels), LEGEND_WIDTH // (longest + 8)))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)


def intervals_height(rows: int, series: int, margin: float) -> float:
    """The height of a chart of intervals, in inches."""
    return margin + rows * ROW_HEIGHT * max(1.0, 0.55 * series)


def panels(figure: Figure, n: int) -> list[Axes]:
    """Add n axes to a figure, up to four in a row."""
    columns = min(n, PANELS_PER_ROW)
    axes = list(figure.subplots(ceil(n / columns), columns, squeeze=False).flat)
    for unused in axes[n:]:
        unused.set_visible(False)
    return axes[:n]


def panels_size(n: int, panel_height: float) -> tuple[float, float]:
    """The size of a figure of n panels, in inches."""
    rows = ceil(n / PANELS_PER_ROW)
    return (max(WIDTH, 1.75 * min(n, PANELS_PER_ROW)), panel_height * rows + 0.2)


def shorten(name: str, length: int = ROW_LABEL) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def stack_dots(values: Iterable[float]) -> tuple[list[float], list[float]]:
    """Values in order, rounded to the width of a dot, and the height of each dot, from 0.

    Dots of about the same value lie on top of each other.
    """
    ordered = sorted(values)
    width = (ordered[-1] - ordered[0]) / 40 if ordered else 0.0
    rounded = [value if width == 0 else round(value / width) * width for value in ordered]
    heights = [float(rounded[:index].count(value)) for index, value in enumerate(rounded)]
    return rounded, heights


def _bounds(cell: NumberCell) -> tuple[float, float]:
    low, high = cell.bounds or (cell.value, cell.value)
    return (cell.value, cell.value) if isnan(low) else (low, high)


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    out = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(out, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return out.getvalue()
