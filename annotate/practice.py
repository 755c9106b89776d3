"""The practice question: a small worked example with drawn garments, never stored."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Final

from hsfiq.collect.protocol import ImageView
from hsfiq.drawn import Garment
from hsfiq.drawn.draw import draw
from hsfiq.drawn.garments import Colour, Logo, Neckline, Pattern, Sleeve

BETTER: Final = 1
"""The set that does what the text asks for."""

TOKEN = re.compile(r"practice-(\d{1,2})")

_Look = tuple[Colour, Sleeve, Pattern, Neckline, Logo]

_LOOKS: tuple[_Look, ...] = (
    ("white", "short", "plain", "round", "none"),  # the original image
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
    {"token": f"practice-{n}", "missing": False} for n in range(len(_LOOKS))
]
REFERENCE = _IMAGES[0]
SETS = [_IMAGES[1:6], _IMAGES[6:11]]


def picture(token: str) -> bytes | None:
    """The WEBP of an image of the example, None where the token names none."""
    found = TOKEN.fullmatch(token)
    number = int(found[1]) if found else len(_LOOKS)
    return drawn(number) if number < len(_LOOKS) else None


@cache
def drawn(number: int) -> bytes:
    """One of the example's garments."""
    colour, sleeve, pattern, neckline, logo = _LOOKS[number]
    file = io.BytesIO()
    draw(Garment("dress", colour, sleeve, pattern, neckline, logo)).save(file, "WEBP", quality=85)
    return file.getvalue()
