"""Pictures of scenes: a drawn garment with its badges, before its background. Needs Pillow."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from hsfiq.drawn.layers import FRAME, disc_mask, layers
from hsfiq.drawn.pictures import JPEG_QUALITY, draw
from hsfiq.drawn.shapes import HEIGHT, MIDDLE, WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Any

    from hsfiq.drawn.fisd.scenes import Background, Scene

Rgb = tuple[int, int, int]

_BADGES_A_ROW, _BADGE_STEP, _BADGE_TOP, _BADGE_RADIUS = 5, 26, 316, 10
_BADGE, _RIM = (255, 222, 64), (24, 24, 28)


def draw_scene_picture(scene: Scene) -> Image.Image:
    """Draw a scene, the same pixels every time with the same version of Pillow."""
    garment = scene.garment
    mask = layers(garment.category, garment.sleeve, garment.neckline).cloth
    picture = Image.composite(draw(garment), background(scene.background), mask)
    for colour, radius in ((_RIM, _BADGE_RADIUS), (_BADGE, _BADGE_RADIUS - 2.5)):
        picture.paste(colour, mask=_badges(scene.badges, radius))
    return picture


def write_scenes(scenes: Iterable[Scene], folder: Path) -> None:
    """Write each scene's picture to `<image id>.jpg` in a folder that exists."""
    for scene in scenes:
        path = folder / f"{scene.image_id}.jpg"
        draw_scene_picture(scene).save(path, format="JPEG", quality=JPEG_QUALITY)


@cache
def _badges(n: int, radius: float) -> Image.Image:
    """Badges in rows of five across the lower part of the garment."""
    left = MIDDLE - _BADGE_STEP * (_BADGES_A_ROW - 1) / 2
    centres = [
        (left + _BADGE_STEP * (i % _BADGES_A_ROW), _BADGE_TOP + _BADGE_STEP * (i // _BADGES_A_ROW))
        for i in range(n)
    ]
    return disc_mask((centre, radius) for centre in centres)


@cache
def background(name: Background) -> Image.Image:
    image = Image.new("RGB", FRAME, (238, 232, 222))
    pen = ImageDraw.Draw(image)
    _BACKGROUNDS.get(name, lambda _: None)(pen)
    return image


def _beach(pen: Any) -> None:
    _bands(pen, ((0, (132, 196, 232)), (190, (40, 126, 176)), (300, (232, 206, 148))))
    pen.ellipse((284, 36, 332, 84), fill=(255, 232, 120))


def _meadow(pen: Any) -> None:
    _bands(pen, ((0, (172, 214, 240)), (250, (96, 168, 76))))
    pen.ellipse((-140, 200, 240, 420), fill=(112, 184, 88))


def _brick(pen: Any) -> None:
    _bands(pen, ((0, (206, 196, 186)),))
    for row in range(HEIGHT // 24):
        for column in range(-1, WIDTH // 60 + 1):
            x, y = column * 60 + row % 2 * 30, row * 24
            pen.rectangle((x + 2, y + 2, x + 57, y + 21), fill=(158, 74, 56))


def _night(pen: Any) -> None:
    _bands(pen, ((0, (18, 22, 54)), (360, (30, 36, 76))))
    pen.ellipse((26, 28, 74, 76), fill=(240, 236, 206))
    for i in range(40):
        x, y = i * 83 % WIDTH, i * 47 % 350
        pen.ellipse((x, y, x + 3, y + 3), fill=(236, 236, 250))


def _snow(pen: Any) -> None:
    _bands(pen, ((0, (196, 210, 226)), (330, (250, 252, 255))))
    pen.polygon([(0, 330), (110, 150), (210, 330)], fill=(232, 240, 248))
    pen.polygon([(170, 330), (290, 190), (400, 330)], fill=(222, 232, 244))


def _bands(pen: Any, bands: tuple[tuple[int, Rgb], ...]) -> None:
    """Fill the frame from each height (pixels from the top) downwards."""
    for top, colour in bands:
        pen.rectangle((0, top, WIDTH, HEIGHT), fill=colour)


_BACKGROUNDS: dict[Background, Callable[[Any], None]] = {
    "beach": _beach,
    "meadow": _meadow,
    "brick": _brick,
    "night": _night,
    "snow": _snow,
}
"""Those that are more than a plain wall."""
