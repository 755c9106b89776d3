"""Charts drawn with matplotlib, in colours and marks that colour-blind readers can distinguish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan
from typing import TYPE_CHECKING, cast

from hsfiq.analysis.reports.document import Chart, NumberCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), "Color Universal Design"."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", "h", "d", ">", "*")
"""Not a multiple of the colours, so that a colour comes with all marks in turn."""
Line = str | tuple[int, tuple[float, ...]]
LINES: tuple[Line, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))
GREY, INK = "#9a9a9a", "#222222"
WIDTH = 6.4  # inches
ROW_HEIGHT = 0.3  # inches, of a row with one mark
PANELS_PER_ROW = 4
MANY_SERIES = 6
"""With more series than this, those of a row are drawn closer together."""
ROW_LABEL, PANEL_TITLE = 30, 20  # the most characters of each
NARROW, NARROW_ROW_LABEL = 4.0, 20  # inches, and the most characters in such a figure
DASHED = (0, (4, 3))


@dataclass(frozen=True)
class SeriesStyle:
    """How a series is drawn; no two of the first 78 look the same."""

    colour: str
    mark: str
    is_hollow: bool
    line: Line

    @property
    def face(self) -> str:
        return "white" if self.is_hollow else self.colour


def style_of_series(index: int, colours: Sequence[str] = COLOURS) -> SeriesStyle:
    """The style of a series by its place from 0: colours repeat, but with another mark and line."""
    again = index // len(colours)
    return SeriesStyle(
        colour=colours[index % len(colours)],
        mark=MARKS[index % len(MARKS)],
        is_hollow=again % 2 == 1,
        line=LINES[again % len(LINES)],
    )


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
        style = style_of_series(index, colours)
        values = [cell.value for cell in defined]
        low, high = ([_bounds(cell)[side] for cell in defined] for side in (0, 1))
        axes.hlines(heights, low, high, color=style.colour, linewidth=1.4, linestyle=style.line)
        plot_marks(axes, values, heights, style, label=shorten(name), linestyle="")
    length = row_label_length(axes)
    labels = ["\n".join(shorten(line, length) for line in row.split("\n")) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def plot_marks(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    style: SeriesStyle,
    *,
    label: str,
    linestyle: Line,
) -> None:
    """Plot the marks of a series, with lines between them unless `linestyle` is empty."""
    axes.plot(
        x,
        y,
        linestyle=linestyle,
        linewidth=1,
        ms=5,
        color=style.colour,
        marker=style.mark,
        markerfacecolor=style.face,
        label=label,
    )


def row_label_length(axes: Axes) -> int:
    """The most characters of a row's label: a narrow figure leaves less room for them."""
    width = _figure_of(axes).get_figwidth()
    return ROW_LABEL if width > NARROW else NARROW_ROW_LABEL


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
    is_empty = all(isnan(cell.value) for cells in series.values() for cell in cells)
    return Chart(name, title, caption, alt, size, paint, is_empty=is_empty)


def draw_reference(axes: Axes, value: float, label: str) -> None:
    axes.axvline(value, color=INK, linewidth=1, linestyle=DASHED, label=label)


def draw_legend(figure: Figure, axes: Axes) -> None:
    import matplotlib as mpl  # noqa: PLC0415

    handles, labels = axes.get_legend_handles_labels()
    longest = max((len(label) for label in labels), default=1)
    letter = 0.52 * float(mpl.rcParams["font.size"]) / 72  # inches
    width = figure.get_figwidth() / letter  # characters
    ncols = max(1, min(len(labels), int(width // (longest + 6))))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)


def intervals_height(rows: int, series: int, margin: float) -> float:
    """The height of a chart of intervals, in inches."""
    each = 0.55 if series <= MANY_SERIES else 0.38
    return margin + rows * ROW_HEIGHT * max(1.0, each * series)


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


def _figure_of(axes: Axes) -> Figure:
    return cast("Figure", axes.figure)
