"""Charts, drawn with matplotlib, in colours and marks that colour-blind readers can distinguish."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan
from typing import TYPE_CHECKING, Any, cast

from hsfiq.analysis.reports.document import PAGE, Chart, NumberCell, Venue

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito (2008), "Color Universal Design"."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", "h", "d", ">", "*")
"""Not a multiple of the colours, so that each colour is combined with every mark."""
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
    width = cast("Figure", axes.figure).get_figwidth()
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


# Charts as files: SVG and PNG for the page, PDF for papers; always the same bytes.

DOTS_PER_INCH = 200
SIMULATED = "SIMULATED answers, not people's"
TRUETYPE = 42
"""The type of the fonts in PDF files; venues do not accept type 3."""

STYLE: dict[RcKeyType, Any] = {
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
    "pdf.fonttype": TRUETYPE,
    "text.parse_math": False,  # names may hold dollar signs
}
RESOLUTIONS = {"png": DOTS_PER_INCH, "svg": 72, "pdf": 72}
"""Dots per inch by kind of file."""
NO_DATES: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": dict.fromkeys(("Date", "Creator", "Type", "Format")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
"""Metadata that would differ between two runs or two versions of matplotlib is left out."""


def draw(chart: Chart, *, simulated: bool, venue: Venue = PAGE) -> Figure:
    """Draw a chart as a figure without a window; `simulated` adds a warning above it."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(style_of(venue)):
        figure = Figure(figsize=venue.size_of(chart), layout="constrained")
        chart.paint(figure)
        _make_room_for_legends(figure, venue)
        if simulated:
            figure.suptitle(SIMULATED, fontsize=8, color=COLOURS[1], x=0.99, ha="right")
    return figure


def chart_files(chart: Chart, *, simulated: bool, venue: Venue = PAGE) -> dict[str, bytes]:
    """The contents of a chart's files by their endings; the PDF is in the style of the venue."""
    figure = draw(chart, simulated=simulated)
    paper = figure if venue is PAGE else draw(chart, simulated=simulated, venue=venue)
    return {
        "svg": _saved(figure, "svg", PAGE),
        "png": _saved(figure, "png", PAGE),
        "pdf": _saved(paper, "pdf", venue),
    }


def to_svg(chart: Chart, *, simulated: bool) -> bytes:
    return _saved(draw(chart, simulated=simulated), "svg", PAGE)


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


def style_of(venue: Venue) -> dict[RcKeyType, Any]:
    """The settings of matplotlib: all text has the venue's size, so that none is too small."""
    sizes: dict[RcKeyType, Any] = dict.fromkeys(
        ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"),
        venue.font,
    )
    return {**STYLE, **sizes, "legend.fontsize": venue.font}


def _make_room_for_legends(figure: Figure, venue: Venue) -> None:
    """Make a figure as much higher as its legends are longer than one line."""
    for legend in figure.legends:
        columns = max(1, getattr(legend, "_ncols", 1))
        further_lines = ceil(len(legend.get_texts()) / columns) - 1
        figure.set_figheight(figure.get_figheight() + further_lines * 1.5 * venue.font / 72)


def _saved(figure: Figure, kind: str, venue: Venue) -> bytes:
    """The file of a figure that `draw` returned; it can be saved again in another format.

    The figure is laid out here; otherwise `savefig` would draw it a second time to lay it out.
    """
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.backends.backend_pdf import FigureCanvasPdf  # noqa: PLC0415
    from matplotlib.backends.backend_svg import FigureCanvasSVG  # noqa: PLC0415

    canvases: dict[str, type[FigureCanvasBase]] = {
        "png": FigureCanvasAgg,
        "svg": FigureCanvasSVG,
        "pdf": FigureCanvasPdf,
    }
    engine = figure.get_layout_engine()
    places = [(axes, axes.get_position(original=True)) for axes in figure.axes]
    out = io.BytesIO()
    with mpl.rc_context(style_of(venue)):
        canvases[kind](figure)  # the widths of letters depend on the kind
        figure.set_dpi(RESOLUTIONS[kind])
        if engine is not None:
            engine.execute(figure)
        figure.set_layout_engine(None)
        figure.savefig(out, format=kind, dpi=DOTS_PER_INCH, metadata=NO_DATES[kind])
    figure.set_layout_engine(engine)
    for axes, place in places:  # where they would be if it had never been laid out
        axes.set_position(place)
        axes.set_in_layout(True)
    return out.getvalue()
