"""Garments with badges to count and a background: a catalogue of its own.

Its image ids differ from those of the other catalogue, and do not reveal the attributes either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from hsfiq.drawn.garments import ATTRIBUTES, CATEGORIES, VALUES, Attribute, Garment

if TYPE_CHECKING:
    from random import Random

Background = Literal["studio", "beach", "meadow", "brick", "night", "snow"]
BACKGROUNDS: tuple[Background, ...] = get_args(Background)

MOST_BADGES = 10

SceneAttribute = Attribute | Literal["badges", "background"]
SCENE_ATTRIBUTES: tuple[SceneAttribute, ...] = (*ATTRIBUTES, "badges", "background")
SCENE_VALUES: dict[SceneAttribute, tuple[str, ...]] = {name: VALUES[name] for name in ATTRIBUTES}
"""As texts, the numbers of badges too."""
SCENE_VALUES["badges"] = tuple(str(number) for number in range(MOST_BADGES + 1))
SCENE_VALUES["background"] = BACKGROUNDS

_N_GARMENTS = 5760
_N_SCENES = _N_GARMENTS * (MOST_BADGES + 1) * len(BACKGROUNDS)
# The stride is coprime to the number of scenes, so that place -> number is a permutation.
_STRIDE, _SHIFT = 150_889, 70_001


@dataclass(frozen=True, slots=True, order=True)
class Scene:
    garment: Garment
    badges: int
    background: Background

    @property
    def image_id(self) -> str:
        """Such as `f004217`."""
        number = int(self.garment.image_id[1:])
        place = number * (MOST_BADGES + 1) + self.badges
        place = place * len(BACKGROUNDS) + BACKGROUNDS.index(self.background)
        return f"f{(place * _STRIDE + _SHIFT) % _N_SCENES:06d}"

    def value(self, attribute: SceneAttribute) -> str:
        if attribute == "badges":
            return str(self.badges)
        if attribute == "background":
            return self.background
        return self.garment.value(attribute)

    def changed(self, attribute: SceneAttribute, value: str) -> Scene:
        if attribute == "badges":
            return replace(self, badges=int(value))
        if attribute == "background":
            return replace(self, background=cast("Background", value))
        garment = replace(self.garment, **{attribute: value})  # type: ignore[arg-type]  # checked by Garment
        return replace(self, garment=garment)


def draw_scene(rng: Random) -> Scene:
    """Draw a scene, every value of an attribute being equally likely."""
    values = {name: rng.choice(VALUES[name]) for name in ATTRIBUTES}
    garment = Garment(rng.choice(CATEGORIES), **values)  # type: ignore[arg-type]  # from VALUES
    return Scene(garment, rng.randint(0, MOST_BADGES), rng.choice(BACKGROUNDS))
