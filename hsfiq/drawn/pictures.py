"""Pictures of garments, as in an illustrated catalogue. Needs Pillow (the `annotate` extra)."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from operator import mul
from random import Random
from typing import TYPE_CHECKING, Literal

from PIL import Image, ImageChops, ImageDraw, ImageFilter, UnidentifiedImageError

from hsfiq.drawn.garments import ATTRIBUTES, CATEGORIES, VALUES, Garment
from hsfiq.drawn.shapes import HEIGHT, MIDDLE, WIDTH, Cut, Point, Polyline, cut
from hsfiq.errors import UnreadableInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hsfiq.drawn.garments import Category, Colour, Logo, Neckline, Pattern, Sleeve


# What garments of one cut share, as masks and grey layers: outline, shading and backdrop.
#
# Masks are drawn `SCALE` times larger than the frame and reduced, so that their edges are smooth.
# The layers of a cut are cached, so that a picture costs only a few compositions. The shading is
# added to the cloth's colour; multiplied, it would leave no folds visible on black.

FRAME = (WIDTH, HEIGHT)
SCALE = 3
"""How many times larger than the frame masks are drawn."""

NEUTRAL = 128
"""The grey of the shading that leaves a colour unchanged."""

_BACKDROP_TOP, _BACKDROP_BOTTOM = (249, 247, 243), (237, 233, 226)
_BACKDROP_SHADOW = (96, 86, 76)


Box = tuple[int, int, int, int]
"""Left, top, right and bottom."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """What a mask covers, often a small part of the frame: that part, and where it is."""

    mask: Image.Image
    box: Box


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one cut.

    Attributes:
        cloth: mask of the frame's size.
        box: the part of the frame with all of the cloth.
        unpatterned: the collar and the inside seen through the neck, which a pattern would make
            hard to distinguish from the front.
        sleeves: masks, of the frame's size, of the parts that the body does not cover.
        shading: the size of `box`.
        backdrop: the frame's size.
    """

    cloth: Image.Image
    box: Box
    unpatterned: Stencil
    sleeves: tuple[Image.Image, ...]
    shading: Image.Image
    buttons: Stencil
    backdrop: Image.Image


@cache
def layers(category: Category, sleeve: Sleeve, neckline: Neckline) -> Layers:
    shape = cut(category, sleeve, neckline)
    cloth = polygon_mask([shape.body, *shape.sleeves, *shape.collar])
    box = cloth.getbbox() or (0, 0, *FRAME)
    return Layers(
        cloth=cloth,
        box=box,
        unpatterned=stencil(polygon_mask([shape.inside, *shape.collar])),
        sleeves=tuple(_visible_sleeve(path, shape.body) for path in shape.sleeves),
        shading=Image.merge("RGB", [_shading(shape, cloth).crop(box)] * 3),
        buttons=stencil(disc_mask((button, 3.4) for button in shape.buttons)),
        backdrop=_backdrop(cloth),
    )


def stencil(mask: Image.Image) -> Stencil:
    box = mask.getbbox() or (0, 0, 0, 0)
    return Stencil(mask.crop(box), box)


def empty_mask() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Create a black mask, `SCALE` times the frame, and a pen that draws on it."""
    image = Image.new("L", (WIDTH * SCALE, HEIGHT * SCALE))
    return image, ImageDraw.Draw(image)


def scaled(points: Iterable[Point]) -> list[Point]:
    """Convert points of the frame to points of a mask that is not yet reduced."""
    return [(x * SCALE, y * SCALE) for x, y in points]


def polygon_mask(paths: Iterable[Polyline], value: int = 255) -> Image.Image:
    image, pen = empty_mask()
    for path in paths:
        pen.polygon(scaled(path), fill=value)
    return image.reduce(SCALE)


def disc_mask(discs: Iterable[tuple[Point, float]]) -> Image.Image:
    """Draw discs, each given by its centre and radius."""
    image, pen = empty_mask()
    for centre, radius in discs:
        draw_disc(pen, centre, radius)
    return image.reduce(SCALE)


def draw_disc(pen: ImageDraw.ImageDraw, centre: Point, radius: float, value: int = 255) -> None:
    """Draw one disc on a mask that is not yet reduced."""
    x, y = centre
    low, high = scaled([(x - radius, y - radius), (x + radius, y + radius)])
    pen.ellipse((low, high), fill=value)


def _line_mask(
    paths: Iterable[Polyline], width: float, value: int, *, dashed: bool = False
) -> Image.Image:
    image, pen = empty_mask()
    width_in_pixels = round(width * SCALE)
    for path in paths:
        if not dashed:
            pen.line(scaled(path), fill=value, width=width_in_pixels, joint="curve")
            continue
        ends = scaled(_dash_ends(path))
        for start, end in zip(ends[::2], ends[1::2], strict=False):
            pen.line([start, end], fill=value, width=width_in_pixels)
    return image.reduce(SCALE)


def _dash_ends(path: Polyline, length: float = 3.0) -> list[Point]:
    """Return points at equal distances along a path, alternately starts and ends of dashes."""
    points, offset = [path[0]], length
    for (x, y), (to_x, to_y) in pairwise(path):
        distance = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        while offset <= distance:
            points.append((x + (to_x - x) * offset / distance, y + (to_y - y) * offset / distance))
            offset += length
        offset -= distance
    return points


def _shading(shape: Cut, cloth: Image.Image) -> Image.Image:
    """Combine light from the side, darker edges, folds, seams, stitches and the neck's inside."""
    shading = ImageChops.add(_side_light(), _edge_shading(cloth), 1, -NEUTRAL)
    shading = ImageChops.add(shading, _folds(shape), 1, -NEUTRAL)
    collar = polygon_mask(shape.collar)
    inside = polygon_mask([shape.inside], 48)
    shading = ImageChops.subtract(shading, ImageChops.subtract(inside, collar))
    for sleeve in shape.sleeves:
        shading = ImageChops.subtract(shading, _shadow_on_sleeve(sleeve, shape.body))
    lines = ImageChops.add(
        _line_mask(shape.seams, 1.3, 44), _line_mask(shape.stitches, 0.9, 34, dashed=True)
    )
    shading = ImageChops.subtract(shading, ImageChops.subtract(lines, collar))
    return _shade_collar(shading, shape, collar) if shape.collar else shading


def _shade_collar(shading: Image.Image, shape: Cut, collar: Image.Image) -> Image.Image:
    """Raise the collar above the rest: a shadow below it, a lighter surface, a sharp outline."""
    shadow = ImageChops.offset(collar, 1, 4).filter(ImageFilter.GaussianBlur(3))
    shadow = ImageChops.subtract(shadow, collar).point(lambda value: value * 0.22)
    shading = ImageChops.subtract(shading, shadow)
    shading = ImageChops.add(shading, collar.point(lambda value: value * 0.03))
    outlines = [(*part, part[0]) for part in shape.collar]
    return ImageChops.subtract(shading, _line_mask(outlines, 1.2, 40))


@cache
def _side_light() -> Image.Image:
    """Light from the left, slightly darker towards the bottom."""
    across = Image.linear_gradient("L").rotate(90).resize(FRAME)
    down = Image.linear_gradient("L").resize(FRAME)
    mixed = Image.blend(across, down, 0.4)
    return mixed.point(lambda value: NEUTRAL + 13 - value * 0.1)


def _edge_shading(cloth: Image.Image) -> Image.Image:
    """Darken towards the outline, and draw a thin line along it."""
    soft = cloth.resize((WIDTH // 2, HEIGHT // 2)).filter(ImageFilter.GaussianBlur(7)).resize(FRAME)
    shading = soft.point(lambda value: NEUTRAL + 5 - (255 - value) * 0.27)
    outline = ImageChops.subtract(cloth, cloth.filter(ImageFilter.MinFilter(3)))
    return ImageChops.subtract(shading, outline.point(lambda value: value * 0.17))


def _folds(shape: Cut) -> Image.Image:
    """Draw each fold as a soft dark line beside a soft light line."""
    image = Image.new("L", (WIDTH // 2, HEIGHT // 2), NEUTRAL)
    pen = ImageDraw.Draw(image)
    for shift, value in ((4, NEUTRAL + 34), (-1, NEUTRAL - 44)):
        for fold in shape.folds:
            points = [((x + shift) / 2, y / 2) for x, y in fold]
            pen.line(points, fill=value, width=4, joint="curve")
    return image.filter(ImageFilter.GaussianBlur(3.2)).resize(FRAME, Image.Resampling.BICUBIC)


@lru_cache(maxsize=2)  # the sleeves of one cut
def _visible_sleeve(sleeve: Polyline, body: Polyline) -> Image.Image:
    return ImageChops.subtract(polygon_mask([sleeve]), polygon_mask([body]))


def _shadow_on_sleeve(sleeve: Polyline, body: Polyline) -> Image.Image:
    """The body's soft shadow on a sleeve."""
    visible = _visible_sleeve(sleeve, body)
    return ImageChops.multiply(_shadow_of(body), visible).point(lambda value: value * 0.16)


@lru_cache(maxsize=1)  # falls on both sleeves
def _shadow_of(body: Polyline) -> Image.Image:
    return ImageChops.offset(polygon_mask([body]), 0, 3).filter(ImageFilter.GaussianBlur(5))


def _backdrop(cloth: Image.Image) -> Image.Image:
    """Off-white, with the garment's soft shadow."""
    image = _empty_backdrop().copy()
    small = cloth.resize((WIDTH // 2, HEIGHT // 2)).filter(ImageFilter.GaussianBlur(6))
    shadow = ImageChops.offset(small.resize(FRAME), 5, 9).point(lambda value: value * 0.3)
    image.paste(_BACKDROP_SHADOW, mask=shadow)
    return image


@cache
def _empty_backdrop() -> Image.Image:
    top, bottom = (Image.new("RGB", FRAME, rgb) for rgb in (_BACKDROP_TOP, _BACKDROP_BOTTOM))
    return Image.composite(bottom, top, Image.linear_gradient("L").resize(FRAME))


# Patterns and logos as masks, to be filled with the colours of a palette.

# ruff: noqa: S311  (simulation, not secrets)


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
    bands: list[Polyline] = []
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
    leaves: list[Polyline] = []
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


def _leaf(centre: Point, angle: float) -> Polyline:
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


PALETTES: dict[Colour, Palette] = {
    colour: Palette(**{role: tuple(rgb) for role, rgb in palette.items()})
    for colour, palette in json.loads(
        files("hsfiq.drawn").joinpath("palettes.json").read_text(encoding="utf-8")
    ).items()
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


# Recognizing the garment in a picture by comparing it with drawn ones. Needs Pillow.
#
# Best-first search: draw the neighbours (one attribute changed) of the garment most similar to the
# picture, until one garment is far more similar than all its neighbours. So a served picture,
# without a name and compressed twice, needs some dozens of further drawings, which are cached.

_SMALL = (SIZE[0] // 10, SIZE[1] // 10)
"""Pictures are compared in this size, which averages out most compression artefacts."""

_SQUARES = tuple(level**2 for level in range(256))

_MAX_DISTANCE = 4.0
"""Mean squared difference (levels of 255) that compression may cause; usually it is about 1."""

_MAX_RATIO = 0.6
"""A garment is recognized if its distance is below this share of every neighbour's."""

START = tuple(
    Garment(category, colour, "short", pattern, "round", "none")  # type: ignore[arg-type]
    for category in CATEGORIES
    for colour in VALUES["colour"]
    for pattern in VALUES["pattern"]
)
"""Colour and pattern dominate a picture, so one of these garments is similar to any picture."""

_MAX_DRAWN = 300
"""How many garments are drawn before giving up; recognition takes about 180."""


def recognize(content: bytes, where: str) -> Garment:
    """Recognize the garment in an image file with this content; errors name it by `where`.

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
