"""Which garment a picture shows, by comparing it with drawn ones. Needs Pillow.

Best first: the garments most like the picture are the ones whose neighbours (one attribute changed)
are drawn next, until one is far more like it than every neighbour. So a served picture, compressed
twice and without a name, is known after some dozens of drawings more, and all of them are kept.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageStat, UnidentifiedImageError

from hsfiq.drawn.garments import ATTRIBUTES, CATEGORIES, VALUES, Garment
from hsfiq.drawn.pictures import SIZE, draw
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_SMALL = (SIZE[0] // 10, SIZE[1] // 10)
"""Pixels at which pictures are compared: most of what compression adds is averaged out."""

_NEAR = 4.0
"""Mean squared difference (levels of 255) that compression may make; mostly it makes 1."""

_CLEAR = 0.6
"""A garment is recognised if its distance is at most this share of every neighbour's."""

_START = tuple(
    Garment(category, colour, "short", pattern, "round", "none")  # type: ignore[arg-type]
    for category in CATEGORIES
    for colour in VALUES["colour"]
    for pattern in VALUES["pattern"]
)
"""Colour and pattern dominate a picture: one of these garments is near to any other."""

_ENOUGH = 300
"""How many garments are drawn before giving up; recognition takes about 180."""


def recognise(content: bytes, where: str) -> Garment:
    """Recognise the garment that a picture shows.

    Args:
        content: of an image file.
        where: the picture's name in errors.

    Raises:
        UnreadableInput: it is not an image, or shows no garment of the drawn catalogue.
    """
    try:
        with Image.open(io.BytesIO(content)) as opened:
            seen = _small(opened)
    except (UnidentifiedImageError, OSError) as error:
        raise UnreadableInput(where, "is no image that can be read") from error
    distances = {garment: _distance(seen, drawn_small(garment)) for garment in _START}
    nearest = [(distance, garment) for garment, distance in distances.items()]
    heapify(nearest)
    while len(distances) < _ENOUGH:
        distance, garment = heappop(nearest)
        around = list(_neighbours(garment))
        for neighbour in around:
            if neighbour not in distances:
                distances[neighbour] = _distance(seen, drawn_small(neighbour))
                heappush(nearest, (distances[neighbour], neighbour))
        if distance < min(_NEAR, _CLEAR * min(distances[neighbour] for neighbour in around)):
            return garment
    raise UnreadableInput(where, "shows no garment of the drawn catalogue")


@cache
def drawn_small(garment: Garment) -> Image.Image:
    """Draw a garment for comparison: 5 kB, kept until the process ends."""
    return _small(draw(garment))


def _small(picture: Image.Image) -> Image.Image:
    return picture.convert("RGB").resize(_SMALL, Image.Resampling.BOX)


def _distance(one: Image.Image, other: Image.Image) -> float:
    """Return the mean squared difference of two small pictures."""
    squares = ImageStat.Stat(ImageChops.difference(one, other)).sum2
    return sum(squares) / (3 * _SMALL[0] * _SMALL[1])


def _neighbours(garment: Garment) -> Iterator[Garment]:
    """Yield the garments that differ in one attribute."""
    for name in ATTRIBUTES:
        for value in VALUES[name]:
            if value != garment.value(name):
                yield replace(garment, **{name: value})  # type: ignore[arg-type]  # from VALUES
