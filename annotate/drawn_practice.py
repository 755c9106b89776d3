"""The practice question: a worked example with drawn images; its answer is never stored.

Studies of garments practise with dresses, all others with plain shapes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Final, Literal

from PIL import Image, ImageDraw

from hsfiq.collect.protocol import ImageView
from hsfiq.drawn import Garment
from hsfiq.drawn.garments import Colour, Logo, Neckline, Pattern, Sleeve
from hsfiq.drawn.pictures import draw
from hsfiq.kinds import Kind, Rules
from hsfiq.study.config import QueryForm

SHAPE_SIDE = 400
N_SHOWN = 5
"""Images of a drawn set."""

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

_Shape = tuple[Literal["circle", "square"], str, int, bool]
"""Its type, its colour, its size in percent of the image, and whether it has an outline."""

_SHAPES: tuple[_Shape, ...] = (
    ("circle", "white", 60, True),  # the reference
    ("square", "red", 60, True),
    ("square", "red", 60, False),
    ("square", "red", 45, True),
    ("square", "red", 75, False),
    ("square", "darkred", 60, True),
    ("circle", "white", 45, True),
    ("circle", "white", 75, True),
    ("circle", "skyblue", 60, True),
    ("circle", "white", 60, False),
    ("circle", "lightyellow", 60, True),
)

N_IMAGES = len(_DRESSES)
"""Of garments, and of shapes: the reference, and two sets of five."""


@dataclass(frozen=True, slots=True)
class DrawnImages:
    """The images of a practice question: the reference, and its sets by their numbers.

    The first set has what the text asks for, the second resembles the reference.
    """

    reference: ImageView
    sets: tuple[list[ImageView], list[ImageView]]

    @classmethod
    def numbered_from(cls, first: int) -> DrawnImages:
        images: list[ImageView] = [
            {"token": f"practice-{first + n}", "missing": False} for n in range(N_IMAGES)
        ]
        return cls(images[0], (images[1:6], images[6:11]))


GARMENTS, SHAPES = DrawnImages.numbered_from(0), DrawnImages.numbered_from(N_IMAGES)

BETTER: Final[dict[QueryForm, Literal[1, 2]]] = {"composed": 1, "text": 1, "image": 2}
"""The number of the set that matches."""


def places_of(form: QueryForm, n_sets: int, seed: str) -> dict[int, int]:
    """The place, from 1, at which each set is shown, in an order that the seed decides."""
    numbers = [BETTER[form]] if n_sets == 1 else list(range(1, n_sets + 1))
    Random(f"practice {seed}").shuffle(numbers)  # noqa: S311 -- no secret
    return {number: place for place, number in enumerate(numbers, start=1)}


def expected_of(kind: Kind, rules: Rules, place: int) -> dict[str, Any]:
    """The correct answer to the practice question if the better set is at this place."""
    if kind.practice is None:
        raise ValueError(f"{kind.name} has no practice question")
    return kind.practice.drawn(replace(rules, k=min(rules.k, N_SHOWN)), place)


def sets_of(images: DrawnImages, places: Mapping[int, int], k: int) -> list[list[ImageView]]:
    """The sets in the order of their places.

    A single set is the better one, of at most k images; the third and later sets mix the two.
    """
    first, second = images.sets
    mixed = [first[:fewer] + second[fewer:] for fewer in (3, 2, 1)]
    numbered = dict(enumerate([first, second, *mixed], start=1))
    shown = [numbered[number] for number in sorted(places, key=places.__getitem__)]
    return shown if len(shown) > 1 else [each[:k] for each in shown]


def image_content(token: str) -> bytes | None:
    """A practice image as WebP, None if the token is not of a practice image."""
    match = TOKEN.fullmatch(token)
    number = int(match[1]) if match else 2 * N_IMAGES
    return drawn(number) if number < 2 * N_IMAGES else None


@cache
def drawn(number: int) -> bytes:
    file = io.BytesIO()
    if number < N_IMAGES:
        picture = draw(Garment("dress", *_DRESSES[number]))
    else:
        picture = draw_shape(*_SHAPES[number - N_IMAGES])
    picture.save(file, "WEBP", quality=85)
    return file.getvalue()


def draw_shape(shape: str, colour: str, percent: int, has_outline: bool) -> Image.Image:
    picture = Image.new("RGB", (SHAPE_SIDE, SHAPE_SIDE), "gainsboro")
    margin = SHAPE_SIDE * (100 - percent) // 200
    box = (margin, margin, SHAPE_SIDE - margin, SHAPE_SIDE - margin)
    pen = ImageDraw.Draw(picture)
    outlined = pen.ellipse if shape == "circle" else pen.rectangle
    outlined(box, fill=colour, outline="black" if has_outline else None, width=8)
    return picture
