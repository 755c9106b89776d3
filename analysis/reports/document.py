"""What a report consists of, before it is HTML, CSV or LaTeX: sections of text, tables, charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hsfiq.analysis.figures import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.figure import Figure

    from hsfiq.analysis.resampling.interval import Interval

Style = Literal["plain", "signed", "percent", "short", "p"]
MARK_NOTE = "* p at most .05, ** .01, *** .001."


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

    @property
    def why_undefined(self) -> str | None:
        """Why the value or its interval is undefined; None if neither is."""
        if self.reason is not None:
            return self.reason
        return self.ci.reason if self.ci is not None else None

    def marks(self, letters: Mapping[str, str]) -> str:
        """The superscript: significance marks, then the letter of the table's footnote."""
        return self.stars + (letters[self.why_undefined] if self.why_undefined else "")


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

    def footnotes(self) -> dict[str, str]:
        """The reasons for undefined figures, each with its letter, in the order of the cells."""
        numbers = (cell for row in self.rows for cell in row if isinstance(cell, Measured))
        reasons = dict.fromkeys(cell.why_undefined for cell in numbers if cell.why_undefined)
        return {reason: letter(place) for place, reason in enumerate(reasons)}

    def notes(self) -> list[str]:
        """The notes below the table: its own, and what significance marks mean if it has any."""
        cells = (cell for row in self.rows for cell in row)
        has_marks = any(isinstance(cell, Measured) and cell.stars for cell in cells)
        return ([self.note] if self.note else []) + ([MARK_NOTE] if has_marks else [])

    def is_text(self, place: int) -> bool:
        """Whether a column holds text only."""
        return all(isinstance(row[place], str) for row in self.rows)


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


def letter(place: int) -> str:
    """The letter of a table's footnote, from 0: a, b, ..., z, aa, ab, ..."""
    return (letter(place // 26 - 1) if place >= 26 else "") + chr(ord("a") + place % 26)


def undefined(reason: str) -> Measured:
    """A cell without a figure."""
    return Measured(UNDEFINED, reason=reason)
