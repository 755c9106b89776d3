"""The practice question: a worked example with drawn garments; its answer is never stored."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Final

from hsfiq.collect.protocol import ImageView
from hsfiq.drawn import Garment
from hsfiq.drawn.garments import Colour, Logo, Neckline, Pattern, Sleeve
from hsfiq.drawn.pictures import draw

BETTER: Final = 1
"""The set that matches the text."""

TOKEN = re.compile(r"practice-(\d{1,2})")

_Attributes = tuple[Colour, Sleeve, Pattern, Neckline, Logo]

_DRESSES: tuple[_Attributes, ...] = (
    ("white", "short", "plain", "round", "none"),  # the reference
    ("red", "long", "plain", "round", "none"),
    ("red", "long", "plain", "v", "none"),
    ("red", "long", "dotted", "round", "none"),
    ("red", "long", "plain", "collar", "none"),
    ("red", "three-quarter", "plain", "round", "none"),
    ("white", "short", "plain", "v", "none"),
    ("white", "none", "plain", "round", "none"),
    ("blue", "short", "plain", "round", "none"),
    ("white", "short", "striped", "round", "none"),
    ("grey", "none", "plain", "collar", "none"),
)

_IMAGES: list[ImageView] = [
    {"token": f"practice-{n}", "missing": False} for n in range(len(_DRESSES))
]
REFERENCE, SETS = _IMAGES[0], [_IMAGES[1:6], _IMAGES[6:11]]


def image_content(token: str) -> bytes | None:
    """A practice image as WebP, None if the token is not of a practice image."""
    match = TOKEN.fullmatch(token)
    number = int(match[1]) if match else len(_DRESSES)
    return drawn(number) if number < len(_DRESSES) else None


@cache
def drawn(number: int) -> bytes:
    colour, sleeve, pattern, neckline, logo = _DRESSES[number]
    file = io.BytesIO()
    draw(Garment("dress", colour, sleeve, pattern, neckline, logo)).save(file, "WEBP", quality=85)
    return file.getvalue()
