"""What a report consists of, before it is HTML, CSV or LaTeX: sections of text, tables, charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hsfiq.analysis.figures import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.figure import Figure

    from hsfiq.analysis.resampling.interval import Interval

Style = Literal["plain", "signed", "percent", "short", "p"]


@dataclass(frozen=True)
class Measured:
    """A figure as it stands in a table: in full precision, rounded only where it is shown.

    Attributes:
        value: the figure; NaN where it is undefined.
        n: how many rows it comes from; None where that is not a count of rows.
        ends: its interval; None where it has none.
        ci: how the ends were found; None where they are not resampled.
        reason: why value is NaN, where it is.
        style: how it is shown; "short" is as short as can be, "p" a p-value.
        stars: significance marks.
        best: whether it is the highest among those that it stands beside.
    """

    value: float
    n: int | None = None
    ends: tuple[float, float] | None = None
    ci: Interval | None = None
    reason: str | None = None
    style: Style = "plain"
    stars: str = ""
    best: bool = False


Cell = str | int | Measured


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: its name in the CSV file.
        title: its name where people read it.
        method: the key of what says how its figures are made (see `methods`), if any.
    """

    key: str
    title: str
    method: str | None = None


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: of its files.
        caption: what it shows.
        columns: m of them.
        rows: of m cells each.
        note: what to keep in mind while reading it.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str | None = None

    def reasons(self) -> tuple[str, ...]:
        """Why figures are undefined, each reason once, in the order of the cells."""
        cells = (cell for row in self.rows for cell in row)
        return tuple(dict.fromkeys(why for cell in cells if (why := why_undefined(cell))))


@dataclass(frozen=True)
class Chart:
    """A figure that is drawn.

    Attributes:
        name: of its files.
        title: what it shows.
        caption: what follows from it, in words made from its numbers.
        alt: what is to be seen, for who cannot see it.
        size: width and height, in inches.
        paint: draws it on an empty figure.
    """

    name: str
    title: str
    caption: str
    alt: str
    size: tuple[float, float]
    paint: Callable[[Figure], None]


Block = str | Table | Chart


@dataclass(frozen=True)
class Section:
    """A part of the report under a heading of its own.

    Attributes:
        name: of its anchor.
        title: its heading.
        blocks: paragraphs, tables and charts, in order.
    """

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """All that a report says.

    Attributes:
        title: its heading.
        about: one line: what was analysed.
        simulated: whether the answers come from simulated annotators.
        caveats: what the data can and cannot say: heading and sentence of each.
        sections: in order.
    """

    title: str
    about: str
    simulated: bool
    caveats: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    def tables(self) -> Iterator[Table]:
        """All tables, in order."""
        yield from (block for block in self._blocks() if isinstance(block, Table))

    def charts(self) -> Iterator[Chart]:
        """All charts, in order."""
        yield from (block for block in self._blocks() if isinstance(block, Chart))

    def _blocks(self) -> Iterator[Block]:
        yield from (block for section in self.sections for block in section.blocks)


def why_undefined(cell: Cell) -> str | None:
    """Say why a cell has no figure, or its figure no interval; None where it has all."""
    if not isinstance(cell, Measured):
        return None
    if cell.reason is not None:
        return cell.reason
    return cell.ci.reason if cell.ci is not None else None


def undefined(reason: str) -> Measured:
    """A cell without a figure."""
    return Measured(UNDEFINED, reason=reason)
