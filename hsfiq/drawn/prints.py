"""Patterns and logos as masks, to be filled with the colours of a palette."""

# ruff: noqa: S311  (simulation, not secrets)

from __future__ import annotations

import math
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Literal

from PIL import Image, ImageChops

from hsfiq.drawn.layers import (
    FRAME,
    SCALE,
    Stencil,
    disc_mask,
    draw_disc,
    empty_mask,
    layers,
    polygon_mask,
    scaled,
    stencil,
)
from hsfiq.drawn.shapes import HEIGHT, MIDDLE, WIDTH, Path, Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.drawn.garments import Category, Logo, Neckline, Pattern, Sleeve

Role = Literal["cloth", "ink", "petal", "heart", "leaf"]
Part = tuple[Role, Stencil]
"""A colour of the palette, and what it fills."""

_SLEEVE_ANGLES: dict[Sleeve, float] = {"none": 0, "short": 32, "three-quarter": 19, "long": 15}
"""Degrees by which the pattern on a sleeve is rotated."""

_RADIUS = math.hypot(WIDTH, HEIGHT) / 2
"""Of the circle around the frame."""


@cache
def pattern_parts(category: Category, sleeve: Sleeve, pattern: Pattern) -> tuple[Part, ...]:
    """Draw a pattern; stripes, checks and dots are rotated on the sleeves."""
    if pattern == "plain":
        return ()
    if pattern == "floral":
        return _flowers()
    mask = _PATTERNS[pattern](0)
    # Sleeves are the same for every neckline.
    for part, side in zip(layers(category, sleeve, "round").sleeves, (-1, 1), strict=False):
        mask = Image.composite(_PATTERNS[pattern](side * _SLEEVE_ANGLES[sleeve]), mask, part)
    return (("ink", stencil(mask)),)


@cache
def logo_parts(category: Category, neckline: Neckline, logo: Logo) -> tuple[Part, ...]:
    """Draw a logo on a patch of plain cloth, which keeps it legible on any pattern."""
    if logo == "none":
        return ()
    (x, y), radius = _logo_place(category, neckline, logo)
    patch, pen = empty_mask()
    width, height = (radius * 1.75, radius * 0.75) if logo == "text" else (radius * 1.3,) * 2
    low, high = scaled([(x - width, y - height), (x + width, y + height)])
    pen.rounded_rectangle(
        (low, high),
        radius=min(width, height) * SCALE * (0.5 if logo == "text" else 1),
        fill=255,
    )
    return (
        ("cloth", stencil(patch.reduce(SCALE))),
        ("ink", stencil(_LOGOS[logo]((x, y), radius))),
    )


def _logo_place(category: Category, neckline: Neckline, logo: Logo) -> tuple[Point, float]:
    """Return the logo's centre and radius, clear of the buttons."""
    if category == "shirt":
        return (MIDDLE + 44, 198), 17 if logo == "text" else 21
    if category == "dress":
        return (MIDDLE, 186), 22
    return (MIDDLE, 252 if neckline == "collar" else 222), 34


def _stripes(angle: float) -> Image.Image:
    return _bands(angle, step=24, width=10, value=255)


def _checks(angle: float) -> Image.Image:
    """Draw translucent bands in two directions, with a thin line between any two."""
    mask = Image.new("L", FRAME)
    for direction in (angle, angle + 90):
        mask = ImageChops.add(mask, _bands(direction, step=36, width=15, value=76))
        mask = ImageChops.add(mask, _bands(direction, step=36, width=2, value=76, start=18))
    return mask


def _bands(angle: float, *, step: float, width: float, value: int, start: float = 0) -> Image.Image:
    """Draw parallel bands, which are horizontal if the angle (degrees) is 0."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    bands: list[Path] = []
    for number in range(-math.ceil(_RADIUS / step), math.ceil(_RADIUS / step) + 1):
        upper = number * step + start
        lower = upper + width
        corners = [(-_RADIUS, upper), (_RADIUS, upper), (_RADIUS, lower), (-_RADIUS, lower)]
        bands.append(
            tuple(
                (MIDDLE + along * cos - down * sin, HEIGHT / 2 + along * sin + down * cos)
                for along, down in corners
            )
        )
    return polygon_mask(bands, value)


def _dots(angle: float) -> Image.Image:
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    centres = [
        (MIDDLE + (x - MIDDLE) * cos - (y - MIDDLE) * sin, y * cos + (x - MIDDLE) * sin)
        for x, y in _lattice(26)
    ]
    return disc_mask((centre, 5.2) for centre in centres)


_PATTERNS = {"striped": _stripes, "checked": _checks, "dotted": _dots}


def _lattice(step: float) -> Iterator[Point]:
    """Yield the points of a triangular lattice that covers the frame even if rotated."""
    for row in range(-8, math.ceil(HEIGHT / step / 0.866) + 8):
        for column in range(-math.ceil(WIDTH / step), math.ceil(WIDTH / step) + 1):
            yield MIDDLE + (column + row % 2 / 2) * step, row * step * 0.866


@cache
def _flowers() -> tuple[Part, ...]:
    """Draw flowers of three sizes, each with five petals and two leaves, in random directions."""
    rng = Random(5)
    petals: list[tuple[Point, float]] = []
    hearts: list[tuple[Point, float]] = []
    leaves: list[Path] = []
    for x, y in _lattice(41):
        centre = (x + rng.uniform(-6, 6), y + rng.uniform(-6, 6))
        size, angle = rng.choice((5.0, 6.4, 7.4)), rng.uniform(0, 72)
        petals += [(_polar(centre, angle + 72 * n, size), size * 0.68) for n in range(5)]
        hearts.append((centre, size * 0.5))
        leaves += [
            _leaf(_polar(centre, angle + turn, size * 2.5), angle + turn) for turn in (36, 168)
        ]
    return (
        ("leaf", stencil(polygon_mask(leaves))),
        ("petal", stencil(disc_mask(petals))),
        ("heart", stencil(disc_mask(hearts))),
    )


def _polar(centre: Point, angle: float, distance: float) -> Point:
    """Return the point at an angle (degrees) and a distance from the centre."""
    radians = math.radians(angle)
    return centre[0] + distance * math.cos(radians), centre[1] + distance * math.sin(radians)


def _leaf(centre: Point, angle: float) -> Path:
    """Return the outline of a narrow leaf that points away from its flower."""
    corners = ((0, 6.5), (55, 3.2), (125, 3.2), (180, 6.5), (235, 3.2), (305, 3.2))
    return tuple(_polar(centre, angle + turn, distance) for turn, distance in corners)


def _star(centre: Point, radius: float) -> Image.Image:
    corners = (_polar(centre, 36 * n - 90, radius * (0.42 if n % 2 else 1.05)) for n in range(10))
    return polygon_mask([tuple(corners)])


def _circle(centre: Point, radius: float) -> Image.Image:
    """Draw a ring around a disc."""
    image, pen = empty_mask()
    for share, value in ((1, 255), (0.76, 0), (0.52, 255)):
        draw_disc(pen, centre, radius * share, value)
    return image.reduce(SCALE)


_LETTERS = (
    ((0, 1), (0, 0), (1, 1), (1, 0)),
    ((0, 0), (1, 0), (1, 1), (0, 1), (0, -0.1)),
    ((0, 0), (0.5, 1), (1, 0)),
    ((0, 1), (0.5, 0), (1, 1)),
)
"""N, O, V, A as strokes in a unit square, so that the pictures depend on no font."""


def _word(centre: Point, radius: float) -> Image.Image:
    image, pen = empty_mask()
    width, height, gap = radius * 0.58, radius * 0.72, radius * 0.26
    left = centre[0] - (4 * width + 3 * gap) / 2
    for letter in _LETTERS:
        strokes = [(left + x * width, centre[1] + (y - 0.5) * height) for x, y in letter]
        pen.line(scaled(strokes), fill=255, width=round(radius * 0.17 * SCALE), joint="curve")
        left += width + gap
    return image.reduce(SCALE)


_LOGOS = {"star": _star, "circle": _circle, "text": _word}
