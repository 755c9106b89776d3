"""A contact sheet: the query above, then a row for each system. Needs Pillow.

All cells of a sheet have the same size; pictures keep their proportions and are not cropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw

from hsfiq.contact_sheet.cells import LINE, Cell, draw_cell
from hsfiq.contact_sheet.content import SheetQuery, SheetRow
from hsfiq.contact_sheet.fonts import Fonts
from hsfiq.contact_sheet.layout import MARGIN, Layout, cell_width
from hsfiq.images.decode import UndecodableImage, decoded
from hsfiq.images.display import displayable
from hsfiq.text import shown

ABSENT = "image absent"
TALLEST, FLATTEST = 1.5, 0.75
"""Limits of a cell's height over its width, which otherwise is that of the tallest image."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A drawn sheet; `reasons` say why images have no picture, `lacking` are undrawn characters."""

    page: Image.Image
    cells: tuple[Cell, ...]
    reasons: dict[str, str]
    lacking: str

    def png(self) -> bytes:
        file = BytesIO()
        self.page.save(file, "PNG", optimize=True)
        return file.getvalue()


def draw_sheet(
    query: SheetQuery,
    rows: Sequence[SheetRow],
    k: int,
    find: Callable[[str], Path | None],
    font: Path | None = None,
) -> Sheet:
    """Draw a query with the first `k` images of each list.

    `find` returns an image's file, or None if it is absent. `font` is a font file for the texts
    (else `UnreadableInput`); by default, it is Pillow's font, else the system's.
    """
    fonts = Fonts(font)
    listed = [name for row in rows for name in row.images[:k]]
    references = [] if query.reference is None else [query.reference]
    names = dict.fromkeys([*references, *query.answers, *listed])
    pictures, reasons = load_pictures(names, find, cell_width(k))
    ratios = [picture.height / picture.width for picture in pictures.values()]
    ratio = min(TALLEST, max([FLATTEST, *ratios]))
    layout = Layout(query, k, ratio, reasons, fonts)
    layout.add_query()
    for row in rows:
        layout.add_row(row)
    page = Image.new("RGB", (layout.width, layout.y), "white")
    pen = ImageDraw.Draw(page)
    for y in layout.rules:
        pen.line((MARGIN, y, layout.width - MARGIN - 1, y), fill=LINE)
    for words in layout.words:
        pen.text(words.at, words.text, fill=words.ink, font=words.font, anchor="ls")
    for cell in layout.cells:
        picture = pictures.get(cell.image)
        draw_cell(page, cell, None if picture is None else fitted(picture, layout.cell), fonts)
    texts = [shown(query.text), *(row.system for row in rows), *names]
    lacking = "".join(dict.fromkeys(letter for text in texts for letter in fonts.lacking(text)))
    return Sheet(page, tuple(layout.cells), reasons, lacking)


def load_pictures(
    names: Iterable[str], find: Callable[[str], Path | None], width: int
) -> tuple[dict[str, Image.Image], dict[str, str]]:
    """Return the pictures by id, no larger than cells, and the reasons why others are missing."""
    pictures, reasons = {}, {}
    for name in names:
        path = find(name)
        try:
            if path is None:
                reasons[name] = ABSENT
            else:
                with decoded(path) as image:
                    box = (width, round(width * TALLEST))
                    pictures[name] = fitted(displayable(image), box)
        except UndecodableImage as error:
            reasons[name] = f"image {error.fault.kind}"
    return pictures, reasons


def fitted(picture: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Resize the picture to the largest size that fits into the box."""
    scale = min(box[0] / picture.width, box[1] / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)
