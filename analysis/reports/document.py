"""The content of a report, independent of its format: sections of text, tables and charts."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from math import isnan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hsfiq.analysis.resampling.bootstrap import Estimate
from hsfiq.analysis.resampling.intervals import ConfidenceInterval
from hsfiq.analysis.resampling.permutation import Difference
from hsfiq.analysis.score_effects import AnswerModel, Effect
from hsfiq.analysis.statistics.correlation import Correlation
from hsfiq.analysis.statistics.preference import Rate
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.figure import Figure

Style = Literal["plain", "signed", "percent", "points", "short", "p"]
MANY = 4
"""Captions name each metric if there are at most this many, else only the extremes."""
SIGNIFICANCE_NOTE = "* p at most .05, ** .01, *** .001."


@dataclass(frozen=True)
class NumberCell:
    """A number in a table, in full precision; it is rounded only for display.

    Attributes:
        n: the number of rows it is computed from; None if that does not apply.
        ci: how the bounds were computed; None if they are not bootstrapped.
        style: "short" is in as few digits as possible, "points" in percentage points with two
            decimals, as tables of recall are; "p" as a p-value.
        best: whether it is the highest of the numbers it is compared with.
    """

    value: float
    n: int | None = None
    bounds: tuple[float, float] | None = None
    ci: ConfidenceInterval | None = None
    reason: str | None = None
    style: Style = "plain"
    stars: str = ""
    best: bool = False

    @property
    def why_undefined(self) -> str | None:
        """Why the value or its interval is undefined; None if neither is."""
        if self.reason is not None:
            return self.reason
        return self.ci.reason if self.ci is not None else None

    def superscript(self, letters: Mapping[str, str]) -> str:
        """Significance marks, then the letter of the table's footnote."""
        return self.stars + (letters[self.why_undefined] if self.why_undefined else "")


Cell = str | int | NumberCell
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table: `key` is its name in the CSV file, `method` its key in `METHODS`."""

    key: str
    title: str
    method: str | None = None


@dataclass(frozen=True)
class Table:
    """A table; each row has one cell per column, and `name` is the name of its files."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str | None = None

    def footnotes(self) -> dict[str, str]:
        """Why figures are undefined: each reason with its letter, in the order of the cells."""
        numbers = (cell for row in self.rows for cell in row if isinstance(cell, NumberCell))
        reasons = dict.fromkeys(cell.why_undefined for cell in numbers if cell.why_undefined)
        return {reason: footnote_letter(index) for index, reason in enumerate(reasons)}

    def notes(self) -> list[str]:
        """The table's own note, and the meaning of its significance marks, if any."""
        cells = (cell for row in self.rows for cell in row)
        has_stars = any(isinstance(cell, NumberCell) and cell.stars for cell in cells)
        return ([self.note] if self.note else []) + ([SIGNIFICANCE_NOTE] if has_stars else [])

    def is_text(self, column: int) -> bool:
        return all(isinstance(row[column], str) for row in self.rows)


@dataclass(frozen=True)
class Chart:
    """A chart that has not been drawn yet; `paint` draws it on an empty figure of `size` inches.

    Attributes:
        name: the name of its files.
        caption: a description of the content.
        alt: describes it for readers who cannot see it.
        is_wide: whether it needs the whole width of a paper with two columns.
        is_empty: whether no figure in it is defined; the page then shows a sentence instead.
    """

    name: str
    title: str
    caption: str
    alt: str
    size: tuple[float, float]
    paint: Callable[[Figure], None]
    is_wide: bool = False
    is_empty: bool = False


Block = str | Table | Chart


@dataclass(frozen=True)
class Section:
    """A part of the report under its own heading; its name is its anchor in the page."""

    name: str
    title: str
    blocks: tuple[Block, ...]

    def without(self, shown: Sequence[Block]) -> Section:
        """The section less the charts and tables that are shown elsewhere."""
        names = {(type(block), block.name) for block in shown if not isinstance(block, str)}
        kept = (
            block
            for block in self.blocks
            if isinstance(block, str) or (type(block), block.name) not in names
        )
        return replace(self, blocks=tuple(kept))

    def drawn(self) -> Section:
        """The section with a sentence in place of each chart that would be empty."""
        blocks = (
            f"{block.title}: no figure is defined, so nothing is drawn."
            if isinstance(block, Chart) and block.is_empty
            else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))


# The answer in words: what a page, a text and a LaTeX section show first.


class Interval(NamedTuple):
    """A figure and its interval in a plot; without an interval, both ends are the figure itself."""

    low: float
    value: float
    high: float


@dataclass(frozen=True)
class PairRow:
    """A pair in the plot, or a rate.

    `flag` names the statistics that disagree, `reason` explains why there is no interval to draw.
    """

    a: str
    b: str
    estimate: str
    interval: str
    p: str
    word: str
    kind: str
    flag: str
    place: Interval | None
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.a} and {self.b}" if self.b else self.a


@dataclass(frozen=True)
class DoubtRow:
    """A doubt; `place` is None if it has no figure, or one on another scale."""

    about: str
    estimate: str
    interval: str
    word: str
    kind: str
    place: Interval | None


@dataclass(frozen=True)
class Axis:
    """The scale of a plot, with its ticks, its neutral value and the margin on both sides of it."""

    low: float
    high: float
    neutral: float
    margin: float | None
    ticks: Sequence[float]
    digits: int

    @property
    def neutral_share(self) -> float:
        return self.share(self.neutral)

    @property
    def band(self) -> tuple[float, float] | None:
        """The start and the width of the margin."""
        if self.margin is None:
            return None
        start, end = (self.share(self.neutral + side * self.margin) for side in (-1, 1))
        return start, end - start

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def tick_text(self, value: float) -> str:
        if value == 0:
            return "0"
        return number_text(value, "plain" if self.neutral else "signed", self.digits)


@dataclass(frozen=True)
class AnswerView:
    """An answer in words.

    Attributes:
        heading: the text before the verdict word, the word, and the text after it.
        figures: name, value and explanation of each figure beside the heading.
        order: the groups of systems whose order the answers support; empty for metrics.
    """

    title: str
    facts: Sequence[str]
    excluded: str
    plan: str
    notices: Sequence[tuple[str, str]]
    kind: str
    pair: str
    heading: tuple[str, str, str]
    figures: Sequence[tuple[str, str, str]]
    caption: str
    what: str
    rows: Sequence[PairRow]
    axis: Axis
    paper: str
    intervals: str
    cautions: Sequence[str]
    order: Sequence[str] = ()
    flags: Sequence[str] = ()
    lead: str = ""
    doubts: Sequence[DoubtRow] = ()
    doubt_axis: Axis | None = None
    not_tried: str = ""


@dataclass(frozen=True)
class Document:
    """The content of a report; `summary` describes the analyzed data in one line.

    Attributes:
        caveats: the heading and text of each limitation of the data.
        answer: the answer, which comes first; the sections are then an appendix.
        evidence: the figures and tables between answer and appendix.
    """

    title: str
    summary: str
    simulated: bool
    caveats: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    answer: AnswerView | None = None
    evidence: tuple[Block, ...] = ()

    def drawn(self) -> Document:
        """The document without empty charts: see `Section.drawn`."""
        evidence = Section("evidence", "Evidence", self.evidence).drawn().blocks
        sections = tuple(section.drawn() for section in self.sections)
        return replace(self, sections=sections, evidence=evidence)

    def tables(self) -> Iterator[Table]:
        yield from (block for block in self._blocks() if isinstance(block, Table))

    def charts(self) -> Iterator[Chart]:
        yield from (block for block in self._blocks() if isinstance(block, Chart))

    def _blocks(self) -> Iterator[Block]:
        yield from self.evidence
        yield from (block for section in self.sections for block in section.blocks)


def footnote_letter(index: int) -> str:
    """The letter of a table's footnote, from 0: a, b, ..., z, aa, ab, ..."""
    return (footnote_letter(index // 26 - 1) if index >= 26 else "") + chr(ord("a") + index % 26)


# Results as table cells, and cells as text. Reports round figures here and nowhere else.

DASH = "\N{EM DASH}"
MINUS = "\N{MINUS SIGN}"
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""The marks of a p-value of at most each limit, as in CIRQRS Table 2."""
SMALLEST_P = 1e-300


def number_cell(
    value: float,
    reason: str | None = None,
    *,
    n: int | None = None,
    ci: ConfidenceInterval | None = None,
    style: Style = "plain",
) -> NumberCell:
    """A figure, with its interval if it has one; its reason is kept only if it is undefined."""
    bounds = None if ci is None else (ci.low, ci.high)
    return NumberCell(value, n, bounds, ci, reason if isnan(value) else None, style)


def estimate_cell(estimate: Correlation | Rate | Estimate) -> NumberCell:
    return number_cell(estimate_value(estimate), estimate.reason, n=estimate.n, ci=estimate.ci)


def estimate_value(estimate: Correlation | Rate | Estimate) -> float:
    """The estimated figure; NaN if undefined."""
    if isinstance(estimate, Correlation):
        return estimate.rho
    return estimate.rate if isinstance(estimate, Rate) else estimate.value


def difference_cell(difference: Difference) -> NumberCell:
    """A paired difference with its interval, marked according to its Holm-adjusted p."""
    cell = number_cell(
        difference.difference, difference.reason, n=difference.n, ci=difference.ci, style="signed"
    )
    return replace(cell, stars=stars(difference.p_holm))


def p_cell(p: float, reason: str | None = None) -> NumberCell:
    return replace(number_cell(p, reason, style="p"), stars=stars(p))


def stars(p: float) -> str:
    """The marks of a p-value; none if it is NaN."""
    return next((marks for limit, marks in STARS if p <= limit), "")


def mark_best(cells: Sequence[NumberCell]) -> list[NumberCell]:
    """Mark the highest cell, if at least two have a value."""
    defined = [cell.value for cell in cells if not isnan(cell.value)]
    highest = max(defined) if len(defined) > 1 else None
    return [replace(cell, best=cell.value == highest) for cell in cells]


def cell_text(cell: Cell) -> str:
    """A cell without its superscript; an undefined figure is a dash."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return " ".join(value_and_interval(cell)).strip()


def value_and_interval(cell: NumberCell) -> tuple[str, str]:
    """A figure and its interval as text; the interval is empty if it has none."""
    if isnan(cell.value):
        return DASH, ""
    interval = "" if cell.bounds is None else bounds_text(cell.bounds, cell.style)
    return number_text(cell.value, cell.style), interval


def bounds_text(bounds: tuple[float, float], style: Style = "plain", digits: int = 3) -> str:
    if isnan(bounds[0]):
        return f"[{DASH}]"
    low, high = (number_text(bound, style, digits) for bound in bounds)
    return f"[{low}, {high}]"


def number_and_interval(estimate: Estimate) -> str:
    """A figure with its interval, for a sentence; an undefined figure has its reason."""
    cell = estimate_cell(estimate)
    why = "" if cell.why_undefined is None else f" ({cell.why_undefined})"
    if isnan(cell.value):
        return f"undefined{why}"
    return number_text(cell.value) + why if why else cell_text(cell)


def number_text(value: float, style: Style = "plain", digits: int = 3) -> str:
    """The text of a figure, which must not be NaN, in sentences and tables.

    `digits` are the decimals of the styles "plain", "signed" and, from 0.001 on, "p".
    """
    if style == "p":
        if value < SMALLEST_P:
            return f"< {SMALLEST_P:.0e}"
        return f"{value:.1e}" if value < 0.001 else f"{value:.{digits}f}"
    if style == "points":
        value *= 100
    formats = {
        "percent": ".1%",
        "points": ".2f",
        "signed": f"+.{digits}f",
        "short": ",.4g",
        "plain": f",.{digits}f",
    }
    return format(value, formats[style]).replace("-", MINUS)


# Tables with the captions and columns of tables.toml.


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((files("hsfiq.analysis.reports") / name).read_text(encoding="utf-8"))


LAYOUTS = read_toml("tables.toml")


def table(
    name: str,
    rows: Iterable[Row],
    *more_columns: Column,
    key: str | None = None,
    note: str | None = None,
    **placeholders: object,
) -> Table:
    """A table with the caption, the columns and, unless given here, the note of tables.toml.

    More columns follow those of tables.toml; placeholders are filled into the caption. One of
    several tables with this layout has a `key`, which is added to its name.
    """
    layout = LAYOUTS[name]
    columns = (*(Column(*column) for column in layout["columns"]), *more_columns)
    caption = layout["caption"].format(**placeholders)
    full_name = name if key is None else f"{name}_{key}"
    return Table(full_name, caption, columns, tuple(rows), note or layout.get("note"))


# Where figures and tables are printed: widths of columns and sizes of letters.
#
# The widths are those of the venues' style files: iclr2026_conference (text 5.5 in wide), cvpr
# (text 6 7/8 in, columns 3 1/4 in) and acl (A4: text 16 cm, columns 7.7 cm).

CM = 1 / 2.54


@dataclass(frozen=True)
class Venue:
    """The style of a venue, or of the report's page.

    Attributes:
        column, text: widths in inches, of a column and of all columns.
        font: the size of all letters in figures, in points.
    """

    name: str
    column: float
    text: float
    font: float

    @property
    def has_columns(self) -> bool:
        return self.column < self.text

    def size_of(self, chart: Chart) -> tuple[float, float]:
        """A figure's width and height in inches; the labels determine the height."""
        width, height = chart.size
        if self is PAGE:
            return width, height
        return (self.text if chart.is_wide else self.column), height * self.font / PAGE.font


PAGE = Venue("page", column=6.4, text=6.4, font=9.5)
VENUES = {
    venue.name: venue
    for venue in (
        Venue("iclr", column=5.5, text=5.5, font=8),
        Venue("cvpr", column=3.25, text=6.875, font=8),
        Venue("acl", column=7.7 * CM, text=16 * CM, font=8),
    )
}


def venue_of(style: str | None) -> Venue:
    """The venue of this name; None is the report's page. UnreadableInput if there is none."""
    if style is None:
        return PAGE
    if style not in VENUES:
        raise UnreadableInput("style", f"no such style: {style}", f"use one of {', '.join(VENUES)}")
    return VENUES[style]


EFFECTS = {"side": "set 1 compared with set 2", "place": "last place of a form compared with first"}


def named_effects(model: AnswerModel) -> dict[str, Effect]:
    """The fixed effects in words, the systems from the best to the worst."""
    systems = sorted(model.systems.items(), key=lambda item: -item[1].value)
    return dict(systems) | {text: getattr(model, name) for name, text in EFFECTS.items()}
