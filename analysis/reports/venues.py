"""Where figures and tables are printed: widths of columns and sizes of letters.

The widths are those of the venues' style files: iclr2026_conference (text 5.5 in wide), cvpr (text
6 7/8 in, columns 3 1/4 in) and acl (A4: text 16 cm, columns 7.7 cm).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.analysis.errors import AnalysisError

if TYPE_CHECKING:
    from hsfiq.analysis.reports.document import Chart

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
        """A figure's width and height in inches; letters decide the height."""
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
    """The venue of this name; None is the report's page. AnalysisError if there is none."""
    if style is None:
        return PAGE
    if style not in VENUES:
        raise AnalysisError("style", f"no such style: {style}", f"use one of {', '.join(VENUES)}")
    return VENUES[style]
