"""A cut as layers of grey: where the cloth is, how light falls on it, and what lies behind.

They are drawn large, made small once for each cut and kept, so that a picture costs a few
compositions. Light is added to the cloth's colour, not multiplied, or black would show no folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageDraw, ImageFilter

from hsfiq.drawn.palette import BACKDROP_BOTTOM, BACKDROP_TOP, SHADOW
from hsfiq.drawn.shapes import HEIGHT, WIDTH, Cut, Path, Point, cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hsfiq.drawn.garments import Category, Neckline, Sleeve

FRAME = (WIDTH, HEIGHT)
FINE = 3
"""How many times larger than the frame crisp things are drawn."""

LEVEL = 128
"""The grey of `Layers.light` that leaves a colour as it is."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What every garment of one cut shares; all of the frame's size.

    `bare` is the cloth that no pattern covers: the collar, and the inside seen through the neck,
    which would be hard to tell from the front in the same print.
    """

    cloth: Image.Image
    bare: Image.Image
    sleeves: tuple[Image.Image, ...]
    light: Image.Image
    buttons: Image.Image
    backdrop: Image.Image


@cache
def layers(category: Category, sleeve: Sleeve, neckline: Neckline) -> Layers:
    """The layers of one cut."""
    shape = cut(category, sleeve, neckline)
    cloth = polygons([shape.body, *shape.sleeves, *shape.collar])
    return Layers(
        cloth=cloth,
        bare=polygons([shape.inside, *shape.collar]),
        sleeves=tuple(
            ImageChops.subtract(polygons([arm]), polygons([shape.body])) for arm in shape.sleeves
        ),
        light=Image.merge("RGB", [_light(shape, cloth)] * 3),
        buttons=discs((button, 3.4) for button in shape.buttons),
        backdrop=_backdrop(cloth),
    )


def fine_canvas() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """An empty grey layer, `FINE` times the frame, and what draws on it."""
    image = Image.new("L", (WIDTH * FINE, HEIGHT * FINE))
    return image, ImageDraw.Draw(image)


def fine(points: Iterable[Point]) -> list[Point]:
    """Frame points as points of a fine canvas."""
    return [(x * FINE, y * FINE) for x, y in points]


def polygons(paths: Iterable[Path], value: int = 255) -> Image.Image:
    """Filled outlines, their edges smooth."""
    image, pen = fine_canvas()
    for path in paths:
        pen.polygon(fine(path), fill=value)
    return image.reduce(FINE)


def discs(placed: Iterable[tuple[Point, float]]) -> Image.Image:
    """Filled circles, given by centre and radius, their edges smooth."""
    image, pen = fine_canvas()
    for centre, radius in placed:
        disc(pen, centre, radius)
    return image.reduce(FINE)


def disc(pen: ImageDraw.ImageDraw, centre: Point, radius: float, value: int = 255) -> None:
    """Draw one filled circle on a fine canvas."""
    x, y = centre
    low, high = fine([(x - radius, y - radius), (x + radius, y + radius)])
    pen.ellipse((low, high), fill=value)


def _lines(paths: Iterable[Path], width: float, value: int, *, dashed: bool = False) -> Image.Image:
    image, pen = fine_canvas()
    for path in paths:
        points = fine(_dashes(path) if dashed else path)
        if dashed:
            for start, end in zip(points[::2], points[1::2], strict=False):
                pen.line([start, end], fill=value, width=round(width * FINE))
        else:
            pen.line(points, fill=value, width=round(width * FINE), joint="curve")
    return image.reduce(FINE)


def _dashes(path: Path, length: float = 3.0) -> list[Point]:
    """Points at even distances along a path: starts and ends of dashes by turns."""
    points, left = [path[0]], length
    for (x, y), (to_x, to_y) in pairwise(path):
        distance = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        done = left
        while done <= distance:
            points.append((x + (to_x - x) * done / distance, y + (to_y - y) * done / distance))
            done += length
        left = done - distance
    return points


def _light(shape: Cut, cloth: Image.Image) -> Image.Image:
    """Side light, darker rims, folds, seams, stitching and the dark inside of the neck."""
    light = ImageChops.add(_side_light(), _rims(cloth), 1, -LEVEL)
    light = ImageChops.add(light, _folds(shape), 1, -LEVEL)
    inside = polygons([shape.inside], 48)
    over = polygons(shape.collar)
    light = ImageChops.subtract(light, ImageChops.subtract(inside, over))
    for arm in shape.sleeves:
        light = ImageChops.subtract(light, _under_arm(arm, shape.body))
    crisp = ImageChops.add(
        _lines(shape.seams, 1.3, 44), _lines(shape.stitches, 0.9, 34, dashed=True)
    )
    light = ImageChops.subtract(light, ImageChops.subtract(crisp, over))
    return _collar_light(light, shape, over) if shape.collar else light


def _collar_light(light: Image.Image, shape: Cut, over: Image.Image) -> Image.Image:
    """A collar lies above the rest: a shadow below it, a little lighter itself, a crisp edge."""
    below = ImageChops.offset(over, 1, 4).filter(ImageFilter.GaussianBlur(3))
    below = ImageChops.subtract(below, over).point(lambda value: value * 0.22)
    light = ImageChops.subtract(light, below)
    light = ImageChops.add(light, over.point(lambda value: value * 0.03))
    edges = [(*leaf, leaf[0]) for leaf in shape.collar]
    return ImageChops.subtract(light, _lines(edges, 1.2, 40))


def _side_light() -> Image.Image:
    """Lighter from the left, a little darker below."""
    across = Image.linear_gradient("L").rotate(90).resize(FRAME)
    down = Image.linear_gradient("L").resize(FRAME)
    mixed = Image.blend(across, down, 0.4)
    return mixed.point(lambda value: LEVEL + 13 - value * 0.1)


def _rims(cloth: Image.Image) -> Image.Image:
    """Darker towards the outline, as cloth turns away, and a thin line at the very edge."""
    soft = cloth.resize((WIDTH // 2, HEIGHT // 2)).filter(ImageFilter.GaussianBlur(7)).resize(FRAME)
    rims = soft.point(lambda value: LEVEL + 5 - (255 - value) * 0.27)
    edge = ImageChops.subtract(cloth, cloth.filter(ImageFilter.MinFilter(3)))
    return ImageChops.subtract(rims, edge.point(lambda value: value * 0.17))


def _folds(shape: Cut) -> Image.Image:
    """Each fold: a soft dark line with a soft light one beside it."""
    image = Image.new("L", (WIDTH // 2, HEIGHT // 2), LEVEL)
    pen = ImageDraw.Draw(image)
    for shift, value in ((4, LEVEL + 34), (-1, LEVEL - 44)):
        for fold in shape.folds:
            pen.line(
                [((x + shift) / 2, y / 2) for x, y in fold], fill=value, width=4, joint="curve"
            )
    return image.filter(ImageFilter.GaussianBlur(3.2)).resize(FRAME, Image.Resampling.BICUBIC)


def _under_arm(arm: Path, body: Path) -> Image.Image:
    """The body's soft shadow on a sleeve."""
    shadow = ImageChops.offset(polygons([body]), 0, 3).filter(ImageFilter.GaussianBlur(5))
    on_sleeve = ImageChops.subtract(polygons([arm]), polygons([body]))
    return ImageChops.multiply(shadow, on_sleeve).point(lambda value: value * 0.16)


def _backdrop(cloth: Image.Image) -> Image.Image:
    """Soft off-white with the garment's shadow on it."""
    blend = Image.linear_gradient("L").resize(FRAME)
    image = Image.composite(
        Image.new("RGB", FRAME, BACKDROP_BOTTOM), Image.new("RGB", FRAME, BACKDROP_TOP), blend
    )
    small = cloth.resize((WIDTH // 2, HEIGHT // 2)).filter(ImageFilter.GaussianBlur(6))
    shadow = ImageChops.offset(small.resize(FRAME), 5, 9).point(lambda value: value * 0.3)
    image.paste(SHADOW, mask=shadow)
    return image
