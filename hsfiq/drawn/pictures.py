"""Pictures of garments, as in an illustrated catalogue. Needs Pillow (the `annotate` extra)."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image, ImageChops

from hsfiq.drawn.layers import FRAME, NEUTRAL, layers
from hsfiq.drawn.prints import logo_parts, pattern_parts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hsfiq.drawn.garments import Colour, Garment
    from hsfiq.drawn.layers import Stencil

Rgb = tuple[int, int, int]

SIZE = FRAME
"""Width and height of a picture in pixels: 360 x 480."""

JPEG_QUALITY = 88


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one garment: `ink` for patterns and logos, `heart` for flower centres."""

    cloth: Rgb
    ink: Rgb
    petal: Rgb
    heart: Rgb
    leaf: Rgb
    button: Rgb


_CREAM: Rgb = (248, 240, 226)
_GOLD: Rgb = (242, 205, 110)

PALETTES: dict[Colour, Palette] = {
    "black": Palette(
        cloth=(45, 45, 50),
        ink=(226, 220, 210),
        petal=(222, 140, 152),
        heart=_GOLD,
        leaf=(118, 150, 122),
        button=(120, 118, 120),
    ),
    "white": Palette(
        cloth=(240, 238, 233),
        ink=(58, 78, 120),
        petal=(210, 104, 112),
        heart=_GOLD,
        leaf=(112, 148, 108),
        button=(206, 202, 194),
    ),
    "grey": Palette(
        cloth=(150, 153, 159),
        ink=(52, 56, 66),
        petal=(244, 240, 236),
        heart=_GOLD,
        leaf=(84, 104, 96),
        button=(96, 98, 104),
    ),
    "red": Palette(
        cloth=(184, 48, 52),
        ink=_CREAM,
        petal=(250, 226, 214),
        heart=_GOLD,
        leaf=(74, 98, 72),
        button=(236, 214, 196),
    ),
    "pink": Palette(
        cloth=(236, 164, 180),
        ink=(156, 52, 92),
        petal=(255, 246, 244),
        heart=(236, 190, 96),
        leaf=(112, 142, 106),
        button=(250, 236, 236),
    ),
    "yellow": Palette(
        cloth=(238, 194, 82),
        ink=(112, 76, 44),
        petal=(255, 250, 238),
        heart=(214, 120, 60),
        leaf=(108, 138, 82),
        button=(250, 238, 206),
    ),
    "green": Palette(
        cloth=(64, 124, 92),
        ink=(240, 234, 208),
        petal=(244, 208, 200),
        heart=_GOLD,
        leaf=(34, 78, 58),
        button=(226, 218, 196),
    ),
    "blue": Palette(
        cloth=(58, 96, 158),
        ink=(238, 240, 242),
        petal=(246, 226, 226),
        heart=_GOLD,
        leaf=(142, 182, 168),
        button=(230, 232, 236),
    ),
}


def draw(garment: Garment, size: tuple[int, int] = SIZE) -> Image.Image:
    """Draw a garment, the same pixels every time with the same version of Pillow.

    A size (width and height in pixels) of 3:4 keeps the garment's proportions.
    """
    palette = PALETTES[garment.colour]
    shared = layers(garment.category, garment.sleeve, garment.neckline)
    left, top, right, bottom = shared.box
    cloth = Image.new("RGB", (right - left, bottom - top), palette.cloth)
    for role, stencil in (
        *pattern_parts(garment.category, garment.sleeve, garment.pattern),
        ("cloth", shared.unpatterned),
        *logo_parts(garment.category, garment.neckline, garment.logo),
        ("button", shared.buttons),
    ):
        _fill(cloth, getattr(palette, role), stencil, (left, top))
    shaded = ImageChops.add(cloth, shared.shading, 1, -NEUTRAL)
    picture = shared.backdrop.copy()
    picture.paste(shaded, shared.box, shared.cloth.crop(shared.box))
    return picture if size == FRAME else picture.resize(size, Image.Resampling.LANCZOS)


def _fill(picture: Image.Image, colour: Rgb, stencil: Stencil, corner: tuple[int, int]) -> None:
    """Fill what a stencil covers in the part of the frame that begins at this corner."""
    left, top, _, _ = stencil.box
    # Pasting the colour itself gives the same pixels and takes twice the time.
    colours = Image.new("RGB", stencil.mask.size, colour)
    picture.paste(colours, (left - corner[0], top - corner[1]), stencil.mask)


def write_images(garments: Iterable[Garment], folder: Path, size: tuple[int, int] = SIZE) -> None:
    """Write each garment's picture to `<image id>.jpg` in the folder, creating it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for garment in garments:
        (folder / f"{garment.image_id}.jpg").write_bytes(encoded(garment, size))


def encoded(garment: Garment, size: tuple[int, int]) -> bytes:
    """A garment's picture as a JPEG file."""
    file = BytesIO()
    draw(garment, size).save(file, format="JPEG", quality=JPEG_QUALITY)
    return file.getvalue()
