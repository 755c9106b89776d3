"""The layout of a sheet: a grid of columns, with all cells of the same size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hsfiq.contact_sheet.cells import CAPTION, INK, SOFT_INK, Cell, Role
from hsfiq.contact_sheet.fonts import Fonts, shortened, wrapped
from hsfiq.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL import ImageFont

    from hsfiq.contact_sheet.content import SheetQuery, SheetRow

MOST_COLUMNS, LEAST_COLUMNS = 10, 4
"""Cells side by side; a longer list continues below, a shorter one leaves space for the text."""
MARGIN, GUTTER = 32, 20
LEAST_WIDTH, MOST_WIDTH, USUAL_PAGE = 176, 260, 1400
"""Limits of a cell's width, and the usual width of a page, in pixels."""
TEXT_COLUMNS = 3
NAME_SIZE, STATUS_SIZE, TEXT_SIZE, TITLE_SIZE = 24, 17, 28, 16
TEXT_LINE, ROW_HEAD, TITLE_HEAD = 38, 52, 36
ROW_GAP = 22
NO_REFERENCE, NO_TEXT, NO_TARGET = "no reference", "no text", "target withheld"


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; `at` is the start of its baseline."""

    at: tuple[int, int]
    text: str
    font: ImageFont.FreeTypeFont
    ink: str


class Layout:
    """Places cells and words on a page, from top to bottom.

    `k` is the number of images of each list, `ratio` a cell's height over its width; `reasons` say
    why an image has no picture, by its id.
    """

    def __init__(
        self, query: SheetQuery, k: int, ratio: float, reasons: Mapping[str, str], fonts: Fonts
    ) -> None:
        self.query, self.k, self.reasons, self.fonts = query, k, reasons, fonts
        self.columns = page_columns(k)
        self.cell = (cell_width(k), round(cell_width(k) * ratio))
        self.width = self.left(self.columns) - GUTTER + MARGIN
        self.y = MARGIN
        self.cells: list[Cell] = []
        self.words: list[Words] = []
        self.rules: list[int] = []

    def left(self, column: int) -> int:
        return MARGIN + column * (self.cell[0] + GUTTER)

    def add_query(self) -> None:
        """Place the reference, the text and the target; below them, the other ground truths."""
        title = f"{self.query.dataset}  {self.query.query_id}"
        font = self.fonts.of(title, TITLE_SIZE)
        self._write(MARGIN, self.y + TITLE_SIZE, title, font, SOFT_INK)
        self.y += TITLE_HEAD
        if self.query.reference is None:
            self._note(0, NO_REFERENCE)
        else:
            self._place(self.query.reference, 0, "reference")
        span = min(TEXT_COLUMNS, self.columns - 2)
        indent = 8
        width = self.left(1 + span) - self.left(1) - GUTTER - 2 * indent
        text = shown(self.query.text) or NO_TEXT
        ink = INK if self.query.text else SOFT_INK
        font = self.fonts.of(text, TEXT_SIZE)
        lines = wrapped(text, font, width)
        top = self.y + max(0, self.cell[1] - TEXT_LINE * len(lines)) // 2
        for number, line in enumerate(lines):
            baseline = top + TEXT_LINE * number + TEXT_SIZE
            self._write(self.left(1) + indent, baseline, line, font, ink)
        if self.query.answers:
            self._place(self.query.answers[0], 1 + span, "target")
        else:
            self._note(1 + span, NO_TARGET)
        self.y += max(self.cell[1] + CAPTION, TEXT_LINE * len(lines)) + ROW_GAP
        if others := self.query.answers[1:]:
            self._head("other truths", f"{len(others)}, besides the target")
            self._grid([(name, None, "") for name in others], self.columns)

    def add_row(self, row: SheetRow) -> None:
        """Place a system's name, the target's rank, and the images of the system's list."""
        self._head(row.system, row.reason or standing(self.query, row, self.k))
        scores = score_texts(row, self.k)
        images = [
            (name, rank, score)
            for rank, (name, score) in enumerate(zip(row.images, scores, strict=False), start=1)
        ]
        self._grid(images, min(self.k, MOST_COLUMNS))

    def _note(self, column: int, text: str) -> None:
        """Write in place of an image that the query does not have."""
        font = self.fonts.of(text, STATUS_SIZE)
        self._write(self.left(column), self.y + self.cell[1] // 2, text, font, SOFT_INK)

    def _head(self, name: str, status: str) -> None:
        self.rules.append(self.y)
        baseline = self.y + ROW_HEAD - 20
        font = self.fonts.of(name, NAME_SIZE)
        name = shortened(name, font, self.width // 2)
        self._write(MARGIN, baseline, name, font, INK)
        at = MARGIN + round(font.getlength(name)) + 18
        font = self.fonts.of(status, STATUS_SIZE)
        status = shortened(status, font, self.width - MARGIN - at)
        self._write(at, baseline, status, font, SOFT_INK)
        self.y += ROW_HEAD

    def _grid(self, images: Sequence[tuple[str, int | None, str]], columns: int) -> None:
        for start in range(0, len(images), columns):
            for column, (name, rank, score) in enumerate(images[start : start + columns]):
                self._place(name, column, role_of(self.query, name), rank, score)
            self.y += self.cell[1] + CAPTION + ROW_GAP

    def _place(
        self, name: str, column: int, role: Role | None, rank: int | None = None, score: str = ""
    ) -> None:
        x, y = self.left(column), self.y
        box = (x, y, x + self.cell[0], y + self.cell[1])
        self.cells.append(Cell(name, box, role, rank, score, self.reasons.get(name, "")))

    def _write(self, x: int, y: int, text: str, font: ImageFont.FreeTypeFont, ink: str) -> None:
        self.words.append(Words((x, y), text, font, ink))


def page_columns(k: int) -> int:
    return max(LEAST_COLUMNS, min(k, MOST_COLUMNS))


def cell_width(k: int) -> int:
    columns = page_columns(k)
    fitting = (USUAL_PAGE - 2 * MARGIN) // columns - GUTTER
    return max(LEAST_WIDTH, min(MOST_WIDTH, fitting))


def role_of(query: SheetQuery, image: str) -> Role | None:
    if image in query.answers:
        return "target" if image == query.answers[0] else "truth"
    return "reference" if image == query.reference else None


def standing(query: SheetQuery, row: SheetRow, k: int) -> str:
    """Describe the target's rank in a list, and how many ground truths are among the first `k`."""
    if not query.answers:
        return f"first {min(k, len(row.images))} of {len(row.images)}"
    target = query.answers[0]
    if target not in row.images:
        text = f"target not among its {len(row.images)}"
    else:
        rank = row.images.index(target) + 1
        text = f"target at rank {rank}" + ("" if rank <= k else ", not shown")
    if len(query.answers) > 1:
        n_retrieved = sum(name in query.answers for name in row.images[:k])
        text += f"; {n_retrieved} of {len(query.answers)} truths among the first {k}"
    return text


def score_texts(row: SheetRow, k: int) -> list[str]:
    """Format the first `k` scores of a list, all in the same format."""
    if row.scores is None:
        return [""] * len(row.images[:k])
    scores = row.scores[:k]
    largest = max(map(abs, scores))
    form = ".3f" if 0.01 <= largest < 100_000 or largest == 0 else ".3g"
    return [format(score, form) for score in scores]
