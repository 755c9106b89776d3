"""The colours that garments are drawn in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hsfiq.drawn.garments import Colour

Rgb = tuple[int, int, int]

BACKDROP_TOP: Rgb = (249, 247, 243)
BACKDROP_BOTTOM: Rgb = (237, 233, 226)
SHADOW: Rgb = (96, 86, 76)


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of one garment: cloth, print and logo, petals, flower hearts, leaves, buttons."""

    cloth: Rgb
    ink: Rgb
    petal: Rgb
    heart: Rgb
    leaf: Rgb
    button: Rgb


_CREAM: Rgb = (248, 240, 226)
_GOLD: Rgb = (242, 205, 110)

PALETTES: dict[Colour, Palette] = {
    "black": Palette(
        cloth=(45, 45, 50),
        ink=(226, 220, 210),
        petal=(222, 140, 152),
        heart=_GOLD,
        leaf=(118, 150, 122),
        button=(120, 118, 120),
    ),
    "white": Palette(
        cloth=(240, 238, 233),
        ink=(58, 78, 120),
        petal=(210, 104, 112),
        heart=_GOLD,
        leaf=(112, 148, 108),
        button=(206, 202, 194),
    ),
    "grey": Palette(
        cloth=(150, 153, 159),
        ink=(52, 56, 66),
        petal=(244, 240, 236),
        heart=_GOLD,
        leaf=(84, 104, 96),
        button=(96, 98, 104),
    ),
    "red": Palette(
        cloth=(184, 48, 52),
        ink=_CREAM,
        petal=(250, 226, 214),
        heart=_GOLD,
        leaf=(74, 98, 72),
        button=(236, 214, 196),
    ),
    "pink": Palette(
        cloth=(236, 164, 180),
        ink=(156, 52, 92),
        petal=(255, 246, 244),
        heart=(236, 190, 96),
        leaf=(112, 142, 106),
        button=(250, 236, 236),
    ),
    "yellow": Palette(
        cloth=(238, 194, 82),
        ink=(112, 76, 44),
        petal=(255, 250, 238),
        heart=(214, 120, 60),
        leaf=(108, 138, 82),
        button=(250, 238, 206),
    ),
    "green": Palette(
        cloth=(64, 124, 92),
        ink=(240, 234, 208),
        petal=(244, 208, 200),
        heart=_GOLD,
        leaf=(34, 78, 58),
        button=(226, 218, 196),
    ),
    "blue": Palette(
        cloth=(58, 96, 158),
        ink=(238, 240, 242),
        petal=(246, 226, 226),
        heart=_GOLD,
        leaf=(142, 182, 168),
        button=(230, 232, 236),
    ),
}
