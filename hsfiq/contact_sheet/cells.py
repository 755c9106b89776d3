"""One image on a sheet: its box, its frame and its caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from PIL import Image, ImageDraw

from hsfiq.contact_sheet.fonts import Fonts, shortened, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

Role = Literal["target", "truth", "reference"]
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are exclusive."""

INK, SOFT_INK = "#1a1a1a", "#4d4d4d"
LINE, EMPTY = "#c4c4c4", "#efefef"
COLOURS: dict[Role, str] = {"target": "#00663f", "truth": "#0a4f9e", "reference": "#5a5a5a"}
DASHES: dict[Role, int] = {"target": 0, "truth": 18, "reference": 5}
"""Pixels of a dash of the frame, 0 for a solid one, so that roles do not differ only by colour."""

FRAME = 5
"""Width of a frame in pixels; it is drawn around the picture."""
GAP = 2
LINE_HEIGHT = 22
CAPTION = 2 * LINE_HEIGHT + 6
"""Pixels below a box, for two lines: rank, role and score; the image's id."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An image in a box; `reason` says why it has no picture."""

    image: str
    box: Box
    role: Role | None
    rank: int | None = None
    score: str = ""
    reason: str = ""


def draw_cell(page: Image.Image, cell: Cell, picture: Image.Image | None, fonts: Fonts) -> None:
    pen = ImageDraw.Draw(page)
    left, top, right, bottom = cell.box
    if picture is None:
        draw_placeholder(pen, cell, fonts)
    else:
        at = (
            left + (right - left - picture.width) // 2,
            top + (bottom - top - picture.height) // 2,
        )
        page.paste(picture, at)
    pen.rectangle((left, top, right - 1, bottom - 1), outline=LINE)
    if cell.role is not None:
        draw_frame(pen, cell.box, cell.role)
    draw_caption(pen, cell, fonts)


def draw_placeholder(pen: ImageDraw.ImageDraw, cell: Cell, fonts: Fonts) -> None:
    """Write into the box that the image is absent or broken, and its id."""
    left, top, right, bottom = cell.box
    pen.rectangle((left, top, right - 1, bottom - 1), fill=EMPTY)
    width = right - left - 16
    lines = [
        (line, font, ink)
        for text, size, ink in ((cell.reason, 17, INK), (cell.image, 14, SOFT_INK))
        for font in (fonts.of(text, size),)
        for line in wrapped(text, font, width)
    ]
    lines = lines[: (bottom - top) // LINE_HEIGHT]
    y = top + (bottom - top - LINE_HEIGHT * len(lines)) // 2
    for line, font, ink in lines:
        pen.text(((left + right) / 2, y), line, fill=ink, font=font, anchor="ma")
        y += LINE_HEIGHT


def draw_frame(pen: ImageDraw.ImageDraw, box: Box, role: Role) -> None:
    """Frame a box: solid for the target, dashed for other truths, dotted for the reference."""
    left, top, right, bottom = box
    out = FRAME + GAP
    for start in dashes(left - out, right + out, DASHES[role]):
        for y in (top - out, bottom + GAP):
            pen.rectangle((start[0], y, start[1] - 1, y + FRAME - 1), fill=COLOURS[role])
    for start in dashes(top - out, bottom + out, DASHES[role]):
        for x in (left - out, right + GAP):
            pen.rectangle((x, start[0], x + FRAME - 1, start[1] - 1), fill=COLOURS[role])


def dashes(start: int, end: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the dashes of a line, with gaps of equal length; the whole line if `length` is 0."""
    if not length:
        yield start, end
        return
    for at in range(start, end, 2 * length):
        yield at, min(at + length, end)


def draw_caption(pen: ImageDraw.ImageDraw, cell: Cell, fonts: Fonts) -> None:
    """Write rank, role and score in a line below the box, then the image's id."""
    left, _, right, bottom = cell.box
    middle = bottom + FRAME + GAP + LINE_HEIGHT // 2 + 2
    x: float = left
    if cell.rank is not None:
        number = str(cell.rank)
        font = fonts.of(number, 17)
        pen.text((x, middle), number, fill=INK, font=font, anchor="lm")
        x += font.getlength(number) + 8
    if cell.role is not None:
        draw_tag(pen, x, middle, cell.role, fonts)
    if cell.score:
        font = fonts.of(cell.score, 15)
        pen.text((right, middle), cell.score, fill=SOFT_INK, font=font, anchor="rm")
    font = fonts.of(cell.image, 13)
    name = shortened(cell.image, font, right - left)
    pen.text((left, middle + LINE_HEIGHT - 3), name, fill=SOFT_INK, font=font, anchor="lm")


def draw_tag(
    pen: ImageDraw.ImageDraw, left: float, middle: float, role: Role, fonts: Fonts
) -> None:
    """Write the role in white on its colour."""
    font = fonts.of(role, 14)
    right = left + font.getlength(role) + 10
    pen.rectangle((left, middle - 10, right, middle + 9), fill=COLOURS[role])
    pen.text((left + 5, middle), role, fill="white", font=font, anchor="lm")
