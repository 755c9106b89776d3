"""Recognising the garment in a picture by comparing it with drawn ones. Needs Pillow.

Best-first search: draw the neighbours (one attribute changed) of the garment most similar to the
picture, until one garment is far more similar than all its neighbours. So a served picture, without
a name and compressed twice, needs some dozens of further drawings, which are cached.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from heapq import heapify, heappop, heappush
from operator import mul
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, UnidentifiedImageError

from hsfiq.drawn.garments import ATTRIBUTES, CATEGORIES, VALUES, Garment
from hsfiq.drawn.pictures import SIZE, draw
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_SMALL = (SIZE[0] // 10, SIZE[1] // 10)
"""Pictures are compared in this size, which averages out most compression artefacts."""

_SQUARES = tuple(level**2 for level in range(256))

_MAX_DISTANCE = 4.0
"""Mean squared difference (levels of 255) that compression may cause; usually it is about 1."""

_MAX_RATIO = 0.6
"""A garment is recognised if its distance is below this share of every neighbour's."""

START = tuple(
    Garment(category, colour, "short", pattern, "round", "none")  # type: ignore[arg-type]
    for category in CATEGORIES
    for colour in VALUES["colour"]
    for pattern in VALUES["pattern"]
)
"""Colour and pattern dominate a picture, so one of these garments is similar to any picture."""

_MAX_DRAWN = 300
"""How many garments are drawn before giving up; recognition takes about 180."""


def recognise(content: bytes, where: str) -> Garment:
    """Recognise the garment in an image file with this content; errors name it by `where`.

    Raises:
        UnreadableInput: it is not an image, or shows no garment of the drawn catalogue.
    """
    try:
        with Image.open(io.BytesIO(content)) as opened:
            picture = small(opened)
    except (UnidentifiedImageError, OSError) as error:
        raise UnreadableInput(where, "is not an image that can be read") from error
    distances = {garment: distance_of(picture, drawn_small(garment)) for garment in START}
    nearest = [(distance, garment) for garment, distance in distances.items()]
    heapify(nearest)
    while len(distances) < _MAX_DRAWN:
        distance, garment = heappop(nearest)
        neighbours = list(_neighbours(garment))
        for neighbour in neighbours:
            if neighbour not in distances:
                distances[neighbour] = distance_of(picture, drawn_small(neighbour))
                heappush(nearest, (distances[neighbour], neighbour))
        next_distance = min(distances[neighbour] for neighbour in neighbours)
        if distance < min(_MAX_DISTANCE, _MAX_RATIO * next_distance):
            return garment
    raise UnreadableInput(where, "shows no garment of the drawn catalogue")


@cache  # about 5 kB a garment
def drawn_small(garment: Garment) -> Image.Image:
    """A garment's picture, small."""
    return small(draw(garment))


def small(picture: Image.Image) -> Image.Image:
    """A picture in the size for comparisons, its levels of red, green and blue as one band."""
    width, height = _SMALL
    levels = picture.convert("RGB").resize(_SMALL, Image.Resampling.BOX).tobytes()
    return Image.frombytes("L", (3 * width, height), levels)


def distance_of(picture: Image.Image, other: Image.Image) -> float:
    """Mean squared difference of the levels of two small pictures."""
    counts = ImageChops.difference(picture, other).histogram()
    squares: int = sum(map(mul, counts, _SQUARES))
    return squares / (3 * _SMALL[0] * _SMALL[1])


def _neighbours(garment: Garment) -> Iterator[Garment]:
    for name in ATTRIBUTES:
        for value in VALUES[name]:
            if value != garment.value(name):
                yield replace(garment, **{name: value})  # type: ignore[arg-type]  # from VALUES
