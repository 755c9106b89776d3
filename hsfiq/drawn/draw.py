"""Pictures of garments, as in an illustrated catalogue. Needs Pillow (the `annotate` extra)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image, ImageChops

from hsfiq.drawn.layers import FRAME, LEVEL, layers
from hsfiq.drawn.palette import PALETTES
from hsfiq.drawn.prints import logo_coats, pattern_coats

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hsfiq.drawn.garments import Garment

SIZE = FRAME
"""Width and height of a picture in pixels: 360 x 480."""

_QUALITY = 88


def draw(garment: Garment, size: tuple[int, int] = SIZE) -> Image.Image:
    """Draw a garment, the same pixels every time with the same Pillow.

    Args:
        garment: what to draw.
        size: width and height in pixels; 3:4 keeps the garment's proportions.
    """
    palette = PALETTES[garment.colour]
    shared = layers(garment.category, garment.sleeve, garment.neckline)
    cloth = Image.new("RGB", FRAME, palette.cloth)
    coats = (
        *pattern_coats(garment.category, garment.sleeve, garment.pattern),
        ("cloth", shared.bare),
        *logo_coats(garment.category, garment.neckline, garment.logo),
    )
    for role, where in coats:
        cloth.paste(getattr(palette, role), mask=where)
    cloth.paste(palette.button, mask=shared.buttons)
    lit = ImageChops.add(cloth, shared.light, 1, -LEVEL)
    picture = Image.composite(lit, shared.backdrop, shared.cloth)
    return picture if size == FRAME else picture.resize(size, Image.Resampling.LANCZOS)


def write_images(garments: Iterable[Garment], folder: Path, size: tuple[int, int] = SIZE) -> None:
    """Write each garment's picture to `<image id>.jpg` in a folder, which is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    for garment in garments:
        path = folder / f"{garment.image_id}.jpg"
        draw(garment, size).save(path, format="JPEG", quality=_QUALITY)
