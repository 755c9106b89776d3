"""The content of a report, independent of its format: sections of text, tables and charts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from matplotlib.figure import Figure

    from hsfiq.analysis.resampling.interval import ConfidenceInterval

Style = Literal["plain", "signed", "percent", "points", "short", "p"]
MANY = 4
"""Captions name each metric for so many at most; for more they name the extremes."""
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
        """The table's own note, and what the significance marks mean if it has any."""
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
        caption: what is seen in it.
        alt: describes it for readers who cannot see it.
        is_wide: whether it needs the whole width of a paper with two columns.
        is_empty: whether nothing of it is defined; the page then says so instead.
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

    def drawn(self) -> Section:
        """The section with a sentence in place of each chart that would be empty."""
        blocks = (
            f"{block.title}: no figure is defined, so nothing is drawn."
            if isinstance(block, Chart) and block.is_empty
            else block
            for block in self.blocks
        )
        return replace(self, blocks=tuple(blocks))


@dataclass(frozen=True)
class Document:
    """The content of a report; `summary` says what was analysed, in one line.

    `caveats` are what the data can and cannot show: heading and text of each point.
    """

    title: str
    summary: str
    simulated: bool
    caveats: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]

    def drawn(self) -> Document:
        """The document without empty charts: see `Section.drawn`."""
        return replace(self, sections=tuple(section.drawn() for section in self.sections))

    def tables(self) -> Iterator[Table]:
        yield from (block for block in self._blocks() if isinstance(block, Table))

    def charts(self) -> Iterator[Chart]:
        yield from (block for block in self._blocks() if isinstance(block, Chart))

    def _blocks(self) -> Iterator[Block]:
        yield from (block for section in self.sections for block in section.blocks)


def footnote_letter(index: int) -> str:
    """The letter of a table's footnote, from 0: a, b, ..., z, aa, ab, ..."""
    return (footnote_letter(index // 26 - 1) if index >= 26 else "") + chr(ord("a") + index % 26)
