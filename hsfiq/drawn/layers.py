"""What garments of one cut share, as masks and grey layers: outline, shading and backdrop.

Masks are drawn `SCALE` times larger than the frame and reduced, so that their edges are smooth.
The layers of a cut are cached, so that a picture costs only a few compositions. The shading is
added to the cloth's colour; multiplied, it would leave no folds visible on black.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from hsfiq.drawn.shapes import HEIGHT, WIDTH, Cut, Path, Point, cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hsfiq.drawn.garments import Category, Neckline, Sleeve

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


def polygon_mask(paths: Iterable[Path], value: int = 255) -> Image.Image:
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
    paths: Iterable[Path], width: float, value: int, *, dashed: bool = False
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


def _dash_ends(path: Path, length: float = 3.0) -> list[Point]:
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
def _visible_sleeve(sleeve: Path, body: Path) -> Image.Image:
    return ImageChops.subtract(polygon_mask([sleeve]), polygon_mask([body]))


def _shadow_on_sleeve(sleeve: Path, body: Path) -> Image.Image:
    """The body's soft shadow on a sleeve."""
    visible = _visible_sleeve(sleeve, body)
    return ImageChops.multiply(_shadow_of(body), visible).point(lambda value: value * 0.16)


@lru_cache(maxsize=1)  # falls on both sleeves
def _shadow_of(body: Path) -> Image.Image:
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
