"""Charts as files: SVG and PNG for the page, PDF for papers; always the same bytes."""

from __future__ import annotations

import io
import re
from math import ceil
from typing import TYPE_CHECKING, Any

from hsfiq.analysis.reports.charts import COLOURS, INK
from hsfiq.analysis.reports.document import Chart
from hsfiq.analysis.reports.venues import PAGE, Venue

if TYPE_CHECKING:
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

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
    """Draw a chart as a figure without a window; `simulated` adds a heading that says so."""
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
    """The file of a figure that `draw` returned; it can be saved again as another kind.

    It is laid out here, since `savefig` would draw it once more, without an effect, only for that.
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
