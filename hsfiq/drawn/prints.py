"""Patterns and logos as layers of grey, to be filled with a palette's colours."""

# ruff: noqa: S311  (simulation, not secrets)

from __future__ import annotations

import math
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Literal

from PIL import Image, ImageChops

from hsfiq.drawn.layers import FINE, FRAME, disc, discs, fine, fine_canvas, layers
from hsfiq.drawn.shapes import HEIGHT, MIDDLE, WIDTH, Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hsfiq.drawn.garments import Category, Logo, Neckline, Pattern, Sleeve

Role = Literal["cloth", "ink", "petal", "heart", "leaf"]
Coat = tuple[Role, Image.Image]
"""A colour of the palette and where it goes."""

_SLANTS: dict[Sleeve, float] = {"none": 0, "short": 32, "three-quarter": 19, "long": 15}
"""How far a sleeve's cloth is turned, in degrees."""

_REACH = math.hypot(WIDTH, HEIGHT) / 2


@cache
def pattern_coats(category: Category, sleeve: Sleeve, pattern: Pattern) -> tuple[Coat, ...]:
    """What a pattern puts on the cloth, the sleeves' part turned with the arm."""
    if pattern == "plain":
        return ()
    if pattern == "floral":
        return _flowers()
    coat = _TILES[pattern](0)
    # The neckline does not matter to where the sleeves are.
    for arm, side in zip(layers(category, sleeve, "round").sleeves, (-1, 1), strict=False):
        coat = Image.composite(_TILES[pattern](side * _SLANTS[sleeve]), coat, arm)
    return (("ink", coat),)


@cache
def logo_coats(category: Category, neckline: Neckline, logo: Logo) -> tuple[Coat, ...]:
    """A logo on a patch of bare cloth, which keeps it readable on any pattern."""
    if logo == "none":
        return ()
    (x, y), radius = _logo_place(category, neckline, logo)
    patch, pen = fine_canvas()
    width, height = (radius * 1.75, radius * 0.75) if logo == "text" else (radius * 1.3,) * 2
    low, high = fine([(x - width, y - height), (x + width, y + height)])
    pen.rounded_rectangle(
        (low, high),
        radius=min(width, height) * FINE * (0.5 if logo == "text" else 1),
        fill=255,
    )
    return (("cloth", patch.reduce(FINE)), ("ink", _LOGOS[logo]((x, y), radius)))


def _logo_place(category: Category, neckline: Neckline, logo: Logo) -> tuple[Point, float]:
    """Centre and radius: a shirt's logo sits beside the placket, a polo's below it."""
    if category == "shirt":
        return (MIDDLE + 44, 198), 17 if logo == "text" else 21
    if category == "dress":
        return (MIDDLE, 186), 22
    return (MIDDLE, 252 if neckline == "collar" else 222), 34


def _stripes(turn: float) -> Image.Image:
    return _bands(turn, step=24, width=10, value=255)


def _checks(turn: float) -> Image.Image:
    """Two translucent bands across each other, each beside a thin line."""
    layer = Image.new("L", FRAME)
    for across in (turn, turn + 90):
        layer = ImageChops.add(layer, _bands(across, step=36, width=15, value=76))
        layer = ImageChops.add(layer, _bands(across, step=36, width=2, value=76, start=18))
    return layer


def _bands(turn: float, *, step: float, width: float, value: int, start: float = 0) -> Image.Image:
    """Parallel bands, level where `turn` (degrees) is 0."""
    image, pen = fine_canvas()
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    for place in range(-math.ceil(_REACH / step), math.ceil(_REACH / step) + 1):
        near = place * step + start
        corners = [(-_REACH, near), (_REACH, near), (_REACH, near + width), (-_REACH, near + width)]
        turned = [
            (MIDDLE + along * cos - down * sin, HEIGHT / 2 + along * sin + down * cos)
            for along, down in corners
        ]
        pen.polygon(fine(turned), fill=value)
    return image.reduce(FINE)


def _dots(turn: float) -> Image.Image:
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    centres = [
        (MIDDLE + (x - MIDDLE) * cos - (y - MIDDLE) * sin, y * cos + (x - MIDDLE) * sin)
        for x, y in _lattice(26)
    ]
    return discs((centre, 5.2) for centre in centres)


_TILES = {"striped": _stripes, "checked": _checks, "dotted": _dots}


def _lattice(step: float) -> Iterator[Point]:
    """Points of a triangular lattice that covers the frame, turned or not."""
    for row in range(-8, math.ceil(HEIGHT / step / 0.866) + 8):
        for column in range(-math.ceil(WIDTH / step), math.ceil(WIDTH / step) + 1):
            yield MIDDLE + (column + row % 2 / 2) * step, row * step * 0.866


@cache
def _flowers() -> tuple[Coat, ...]:
    """Five-petalled flowers with two leaves each, here and there larger, none like the next."""
    rng = Random(5)
    petals: list[tuple[Point, float]] = []
    hearts: list[tuple[Point, float]] = []
    leaves: list[tuple[Point, float]] = []
    for x, y in _lattice(41):
        centre = (x + rng.uniform(-6, 6), y + rng.uniform(-6, 6))
        size, turn = rng.choice((5.0, 6.4, 7.4)), rng.uniform(0, 72)
        petals += [(_at(centre, turn + 72 * which, size), size * 0.68) for which in range(5)]
        hearts.append((centre, size * 0.5))
        leaves += [(_at(centre, turn + side, size * 2.5), turn + side) for side in (36, 168)]
    return (("leaf", _leaves(leaves)), ("petal", discs(petals)), ("heart", discs(hearts)))


def _at(centre: Point, turn: float, distance: float) -> Point:
    angle = math.radians(turn)
    return centre[0] + distance * math.cos(angle), centre[1] + distance * math.sin(angle)


def _leaves(placed: list[tuple[Point, float]]) -> Image.Image:
    """Leaves as slim lozenges that point away from their flower."""
    image, pen = fine_canvas()
    for centre, turn in placed:
        ends = ((0, 6.5), (55, 3.2), (125, 3.2), (180, 6.5), (235, 3.2), (305, 3.2))
        pen.polygon(fine(_at(centre, turn + more, far) for more, far in ends), fill=255)
    return image.reduce(FINE)


def _star(centre: Point, radius: float) -> Image.Image:
    image, pen = fine_canvas()
    corners = [
        _at(centre, 36 * which - 90, radius * (0.42 if which % 2 else 1.05)) for which in range(10)
    ]
    pen.polygon(fine(corners), fill=255)
    return image.reduce(FINE)


def _circle(centre: Point, radius: float) -> Image.Image:
    """A ring around a disc."""
    image, pen = fine_canvas()
    for part, value in ((1, 255), (0.76, 0), (0.52, 255)):
        disc(pen, centre, radius * part, value)
    return image.reduce(FINE)


_LETTERS = (
    ((0, 1), (0, 0), (1, 1), (1, 0)),
    ((0, 0), (1, 0), (1, 1), (0, 1), (0, -0.1)),
    ((0, 0), (0.5, 1), (1, 0)),
    ((0, 1), (0.5, 0), (1, 1)),
)
"""N, O, V, A as strokes in a unit square: a font would tie the pictures to a font file."""


def _word(centre: Point, radius: float) -> Image.Image:
    image, pen = fine_canvas()
    wide, high, gap = radius * 0.58, radius * 0.72, radius * 0.26
    left = centre[0] - (4 * wide + 3 * gap) / 2
    for letter in _LETTERS:
        strokes = [(left + x * wide, centre[1] + (y - 0.5) * high) for x, y in letter]
        pen.line(fine(strokes), fill=255, width=round(radius * 0.17 * FINE), joint="curve")
        left += wide + gap
    return image.reduce(FINE)


_LOGOS = {"star": _star, "circle": _circle, "text": _word}
