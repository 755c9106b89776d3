"""Charts drawn with matplotlib, in colours and marks that colour-blind people tell apart."""

from __future__ import annotations

import io
import re
from math import ceil, isnan
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

    from hsfiq.analysis.reports.document import Chart, Measured

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), "Color Universal Design"."""
MARKS = ("o", "s", "^", "D", "v", "P")
GREY, INK = "#9a9a9a", "#222222"
WIDTH = 6.4  # inches
ROW = 0.3  # inches, of a row with one mark
LINE = 88  # letters across a figure
ACROSS = 4  # panels beside each other
LONGEST, ABOVE = 30, 20  # letters of a name beside a row, and above a panel
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


def drawn(chart: Chart, *, simulated: bool) -> Figure:
    """Draw a chart.

    Args:
        chart: any chart of the report.
        simulated: whether it shows simulated answers, which it then says itself.

    Returns:
        A figure that belongs to no window.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=chart.size, layout="constrained")
        chart.paint(figure)
        if simulated:
            figure.suptitle(SIMULATED, fontsize=8, color=COLOURS[1], x=0.99, ha="right")
    return figure


def to_png(chart: Chart, *, simulated: bool) -> bytes:
    """Draw a chart as PNG."""
    return _saved(drawn(chart, simulated=simulated), "png", {"Software": None})


def to_svg(chart: Chart, *, simulated: bool) -> bytes:
    """Draw a chart as an SVG file."""
    metadata = dict.fromkeys(("Date", "Creator", "Type", "Format"))
    return _saved(drawn(chart, simulated=simulated), "svg", metadata)


def to_inline(chart: Chart, svg: bytes) -> str:
    """Make an SVG file fit to stand in a page beside others.

    Args:
        chart: what it shows.
        svg: what `to_svg` returned.

    Returns:
        The element alone, named for who cannot see it, its ids beginning with the chart's name.
    """
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{chart.name}-", text)
    by = f'aria-labelledby="{chart.name}-caption" aria-describedby="{chart.name}-alt"'
    return text.replace("<svg ", f'<svg role="img" {by} ', 1).strip()


def intervals(
    axes: Axes,
    rows: Sequence[str],
    series: Mapping[str, Sequence[Measured]],
    *,
    colours: Sequence[str] = COLOURS,
) -> None:
    """Draw a dot with its interval for each row of each series, the first row on top.

    Args:
        axes: to draw on.
        rows: r names.
        series: by name, r figures; those that are undefined are left out.
        colours: of the series.
    """
    step = 0.7 / max(1, len(series))
    for place, (name, cells) in enumerate(series.items()):
        shift = (place - (len(series) - 1) / 2) * step
        places = [row + shift for row, cell in enumerate(cells) if not isnan(cell.value)]
        known = [cell for cell in cells if not isnan(cell.value)]
        colour, mark = colours[place % len(colours)], MARKS[place % len(MARKS)]
        axes.plot(
            [cell.value for cell in known],
            places,
            linestyle="",
            ms=5,
            color=colour,
            marker=mark,
            label=name,
        )
        axes.hlines(
            places,
            [_ends(cell)[0] for cell in known],
            [_ends(cell)[1] for cell in known],
            color=colour,
            linewidth=1.6,
        )
    labels = ["\n".join(short(line) for line in row.split("\n")) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def reference(axes: Axes, value: float, label: str) -> None:
    """Draw a dashed line at a value of the horizontal axis."""
    axes.axvline(value, color=INK, linewidth=1, linestyle=(0, (4, 3)), label=label)


def legend(figure: Figure, axes: Axes) -> None:
    """Put the names of what the axes show below the whole figure."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max((len(label) for label in labels), default=1)
    ncols = max(1, min(len(labels), LINE // (longest + 8)))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)


def height(rows: int, series: int = 1, extra: float = 1.0) -> float:
    """How high a chart of intervals is, in inches."""
    return extra + rows * ROW * max(1.0, 0.55 * series)


def panels(figure: Figure, n: int) -> list[Axes]:
    """Put n axes on a figure, four beside each other at most."""
    across = min(n, ACROSS)
    every = list(figure.subplots(ceil(n / across), across, squeeze=False).flat)
    for unused in every[n:]:
        unused.set_visible(False)
    return every[:n]


def panels_size(n: int, tall: float) -> tuple[float, float]:
    """How large a figure of n panels is; each is so tall, in inches."""
    return (max(WIDTH, 1.75 * min(n, ACROSS)), tall * ceil(n / ACROSS) + 0.2)


def short(name: str, most: int = LONGEST) -> str:
    """A name of so many letters at most."""
    return name if len(name) <= most else f"{name[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def spread(values: Iterable[float]) -> tuple[list[float], list[float]]:
    """Lay values out as a dot plot: equal ones beside each other.

    Args:
        values: not NaN; any order.

    Returns:
        Each value, rounded to a dot's width, and how far up its dot stands, from 0.
    """
    ordered = sorted(values)
    width = (ordered[-1] - ordered[0]) / 40 if ordered else 0.0
    places: list[float] = []
    heights: list[float] = []
    for value in ordered:
        place = value if width == 0 else round(value / width) * width
        heights.append(sum(other == place for other in places))
        places.append(place)
    return places, heights


def _ends(cell: Measured) -> tuple[float, float]:
    low, high = cell.ends or (cell.value, cell.value)
    return (cell.value, cell.value) if isnan(low) else (low, high)


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    out = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(out, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return out.getvalue()
