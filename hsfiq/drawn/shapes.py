"""The cut of a garment: outlines, openings and seams as points in a 360 x 480 frame.

All shapes are symmetric about the vertical middle line. So only the half on the right is defined,
with x measured from the middle, and then mirrored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hsfiq.drawn.garments import Category, Neckline, Sleeve

WIDTH, HEIGHT = 360, 480
MIDDLE = WIDTH / 2

Point = tuple[float, float]
Polyline = tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """Closed outlines (body, sleeves, inside, collar), then open lines and the buttons' centres."""

    body: Polyline
    sleeves: tuple[Polyline, ...]
    inside: Polyline
    collar: tuple[Polyline, ...]
    seams: tuple[Polyline, ...]
    stitches: tuple[Polyline, ...]
    folds: tuple[Polyline, ...]
    buttons: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """The outline of a category: x from the middle, y from the top."""

    neck: Point
    shoulder: Point
    underarm: Point
    side: Polyline  # from the underarm down to the corner of the hem
    hem: Polyline  # from the corner to the middle
    folds: tuple[Polyline, ...]


def _points(stated: Any) -> Any:
    """A point, a polyline or several: the lists of the file as tuples."""
    return tuple(map(_points, stated)) if isinstance(stated, list) else stated


_BLOCKS: dict[Category, _Block] = {
    category: _Block(**{part: _points(stated) for part, stated in block.items()})
    for category, block in json.loads(
        files("hsfiq.drawn").joinpath("outlines.json").read_text(encoding="utf-8")
    ).items()
}

# The outer and the inner end of a sleeve, relative to the shoulder.
_SLEEVE_ENDS: dict[Sleeve, tuple[Point, Point]] = {
    "short": ((42, 74), (4, 102)),
    "three-quarter": ((57, 176), (23, 186)),
    "long": ((65, 264), (37, 271)),
}
_FRONT_DEPTH: dict[Neckline, float] = {"round": 36, "v": 84, "collar": 44}
_BACK_DEPTH = 9.0
_WAIST = 222
_BUTTON_STEP = 47


@cache
def cut(category: Category, sleeve: Sleeve, neckline: Neckline) -> Cut:
    """Return the cut of a garment, its curves as many short lines."""
    block = _BLOCKS[category]
    arm = _armhole(block, sleeveless=sleeve == "none")
    front = _front(block.neck, neckline)
    back = smooth(
        [(0, block.neck[1] + _BACK_DEPTH), (block.neck[0] * 0.6, block.neck[1] + 6), block.neck]
    )
    hem = smooth([block.side[-1], *block.hem])
    half = [*back, *arm, *smooth([arm[-1], *block.side])[1:], *hem]
    seams: list[Polyline] = [*_both(front)]
    if neckline != "collar":
        seams += _both(_trim(front))
    stitches: list[Polyline] = [*_both([(x * 0.99, y - 9) for x, y in hem])]
    sleeves: tuple[Polyline, ...] = ()
    folds = [line for fold in block.folds for line in _both(smooth(fold))]
    if sleeve != "none":
        outline, cuff, crease = _sleeve(block, sleeve)
        sleeves = _both(outline)
        seams += _both(arm)
        stitches += _both(cuff)
        folds += _both(crease)
    else:
        stitches += _both([(x - 6, y + 2) for x, y in arm])
    buttons: list[Point] = []
    _add_opening(category, neckline, block.neck[1] + _FRONT_DEPTH[neckline], seams, buttons)
    return Cut(
        body=_closed(half),
        sleeves=sleeves,
        inside=_closed([*back, *front]),
        collar=_collar(block.neck) if neckline == "collar" else (),
        seams=tuple(seams),
        stitches=tuple(stitches),
        folds=tuple(folds),
        buttons=tuple(buttons),
    )


def smooth(points: Sequence[Point], steps: int = 10) -> list[Point]:
    """Return a Catmull-Rom curve through the points."""
    padded = [points[0], *points, points[-1]]
    curve = [points[0]]
    for place in range(len(points) - 1):
        corners = padded[place : place + 4]
        for step in range(1, steps + 1):
            x, y = (_between([corner[axis] for corner in corners], step / steps) for axis in (0, 1))
            curve.append((x, y))
    return curve


def _between(values: Sequence[float], share: float) -> float:
    """Return a coordinate of a Catmull-Rom segment, at a share (0 to 1) of its length."""
    before, start, end, after = values
    return 0.5 * (
        2 * start
        + (end - before) * share
        + (2 * before - 5 * start + 4 * end - after) * share**2
        + (3 * start - before - 3 * end + after) * share**3
    )


def _right(points: Sequence[Point]) -> Polyline:
    return tuple((MIDDLE + x, y) for x, y in points)


def _left(points: Sequence[Point]) -> Polyline:
    return tuple((MIDDLE - x, y) for x, y in points)


def _both(points: Sequence[Point]) -> tuple[Polyline, Polyline]:
    return _right(points), _left(points)


def _closed(half: Sequence[Point]) -> Polyline:
    """Return the outline whose right half starts and ends at the middle."""
    return (*_right(half), *reversed(_left(half)))


def _armhole(block: _Block, *, sleeveless: bool) -> list[Point]:
    """Return the line from the neck over the shoulder to the underarm."""
    (neck_x, neck_y), (x, y), (under_x, under_y) = block.neck, block.shoulder, block.underarm
    if sleeveless:
        edge = (neck_x + 0.5 * (x - neck_x), neck_y + 0.5 * (y - neck_y))
        points = [edge, (edge[0] + 1, y + 28), (under_x - 9, under_y - 18), block.underarm]
    else:
        points = [(x, y), (x - 7, y + 34), block.underarm]
    return [block.neck, *smooth(points)]


def _sleeve(block: _Block, sleeve: Sleeve) -> tuple[list[Point], list[Point], list[Point]]:
    """Return a sleeve's outline, the stitches of its cuff, and a crease along it."""
    (x, y), (under_x, under_y) = block.shoulder, block.underarm
    outer, inner = ((x + dx, y + dy) for dx, dy in _SLEEVE_ENDS[sleeve])
    length = outer[1] - y
    elbow = [(x + 44, y + 104)] if length > 150 else []
    top = smooth([(x - 14, y - 5), (x + 2, y + 2), (x + 20, y + 26), *elbow, outer])
    middle_of_underside = ((under_x + inner[0]) / 2 - 1, (under_y + inner[1]) / 2 + 2)
    bend = [middle_of_underside] if inner[1] - under_y > 60 else []
    below = smooth([block.underarm, *bend, inner])
    under_body = [(x - 20, y + 34), (x - 30, y + 4)]
    depth = min(10.0, length * 0.1)
    cuff = [(end_x - depth * 0.35, end_y - depth) for end_x, end_y in (outer, inner)]
    middle = ((outer[0] + inner[0]) / 2, (outer[1] + inner[1]) / 2)
    crease = smooth([(x + 2, y + 40), ((x + middle[0]) / 2 + 4, (y + middle[1]) / 2 + 6), middle])
    return [*top, *reversed(below), *under_body], cuff, crease


def _front(neck: Point, neckline: Neckline) -> list[Point]:
    """Return the front edge of the neck opening, from the neck to the middle."""
    x, y = neck
    depth = _FRONT_DEPTH[neckline]
    if neckline == "round":
        return smooth(
            [(x, y), (x * 0.82, y + depth * 0.55), (x * 0.45, y + depth * 0.9), (0, y + depth)]
        )
    return smooth([(x, y), (x * 0.58, y + depth * 0.46), (0, y + depth)])


def _trim(front: Sequence[Point]) -> list[Point]:
    """Return the lower edge of the ribbing around an open neck."""
    neck_x = front[0][0]
    return [(x + 7 * x / neck_x, y + 8 - 5 * x / neck_x) for x, y in front]


def _collar(neck: Point) -> tuple[Polyline, ...]:
    """Return the part behind the neck, and the two halves that fold over the front."""
    x, y = neck
    depth = _FRONT_DEPTH["collar"]
    half = [
        *smooth([(x - 5, y - 13), (x * 0.62, y + depth * 0.4), (0, y + depth)]),
        (x * 0.74, y + depth + 25),
        *smooth([(x + 15, y + 12), (x + 10, y - 4), (x - 5, y - 13)]),
    ]
    behind = [
        *smooth([(0, y - 7), (x * 0.6, y - 9), (x - 5, y - 13)]),
        (x, y + 7),
        (0, y + _BACK_DEPTH + 4),
    ]
    return (_closed(behind), *_both(half))


def _add_opening(
    category: Category,
    neckline: Neckline,
    top: float,
    seams: list[Polyline],
    buttons: list[Point],
) -> None:
    """Add the buttons and the seams beside them, of a shirt or a polo; or a dress's waist seam."""
    if category == "dress":
        seams.extend(_both(smooth([(54, _WAIST), (28, _WAIST + 6), (0, _WAIST + 7)])))
        return
    if category == "shirt":
        bottom, step = 423.0, _BUTTON_STEP
    elif neckline == "collar":
        bottom, step = top + 66, 24
    else:
        return
    seams += [((MIDDLE + side, top - 4), (MIDDLE + side, bottom)) for side in (-9, 9)]
    if category == "toptee":
        seams.append(((MIDDLE - 9, bottom), (MIDDLE + 9, bottom)))
    height = top + 14
    while height < bottom - 14:
        buttons.append((MIDDLE, height))
        height += step
