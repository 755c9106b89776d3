"""Triplets of FISD's six aspects, fully informed by construction.

A caption's exact reading is the target, and no other image of the corpus is that scene, so each
query has one best image. Hard negatives take turns: one has the target's silent attributes and a
wrong value of a mentioned one (nearly what is said), the other the mentioned values and a wrong
silent attribute (nearly the reference).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hsfiq.drawn.fisd.captions import clauses, read_caption, write_caption
from hsfiq.drawn.fisd.scenes import (
    SCENE_ATTRIBUTES,
    SCENE_VALUES,
    Scene,
    SceneAttribute,
    draw_scene,
)
from hsfiq.drawn.garments import generator
from hsfiq.errors import InvalidRecord
from hsfiq.readers.fisd import ASPECTS, Aspect

if TYPE_CHECKING:
    from random import Random

MisreadPart = Literal["text", "reference"]
"""What a hard negative does not fit."""

PUBLISHED_TRIPLETS = 200
"""Of each aspect of FISD."""

N_COMPLEX = (4, 5)
LEAST_WORDS = 26
"""Of a complex caption: FISD's have more than 25."""

Change = tuple[SceneAttribute, str]


@dataclass(frozen=True, slots=True)
class SceneTriplet:
    triplet_id: str
    aspect: Aspect
    reference: Scene
    target: Scene
    hard_negative: Scene
    misread: MisreadPart
    caption: str

    def __post_init__(self) -> None:
        if read_caption(self.caption, self.reference) != self.target:
            raise InvalidRecord(f"triplet {self.triplet_id}: the caption means another target")

    @property
    def scenes(self) -> tuple[Scene, Scene, Scene]:
        return self.reference, self.target, self.hard_negative


def draw_aspects(seed: int, n: int) -> dict[Aspect, tuple[SceneTriplet, ...]]:
    """Draw n triplets of each aspect; those of one aspect have 3 n different images."""
    return {aspect: draw_aspect(generator(seed, "fisd", aspect), aspect, n) for aspect in ASPECTS}


def draw_aspect(rng: Random, aspect: Aspect, n: int) -> tuple[SceneTriplet, ...]:
    used: set[Scene] = set()
    triplets: list[SceneTriplet] = []
    while len(triplets) < n:
        misread: MisreadPart = "reference" if len(triplets) % 2 else "text"
        triplet = draw_triplet(rng, aspect, f"{aspect}-{len(triplets):03d}", misread)
        if triplet is not None and used.isdisjoint(triplet.scenes):
            triplets.append(triplet)
            used.update(triplet.scenes)
    return tuple(triplets)


def draw_triplet(
    rng: Random, aspect: Aspect, triplet_id: str, misread: MisreadPart
) -> SceneTriplet | None:
    """Draw a triplet; None if the reference allows none, or the caption is too short."""
    reference = draw_scene(rng)
    possible = changes_of(aspect, reference)
    names = sorted({attribute for attribute, _ in possible})
    n_changes = rng.choice(N_COMPLEX) if aspect == "complex" else 1
    if len(names) < n_changes:
        return None
    changes = [
        rng.choice([change for change in possible if change[0] == name])
        for name in rng.sample(names, n_changes)
    ]
    caption = write_caption(rng, aspect, reference, changes)
    if aspect == "complex" and len(caption.split()) < LEAST_WORDS:
        return None
    target = reference
    for change in changes:
        target = target.changed(*change)
    negative = draw_negative(rng, reference, target, changes, misread)
    return SceneTriplet(triplet_id, aspect, reference, target, negative, misread, caption)


def changes_of(aspect: Aspect, reference: Scene) -> list[Change]:
    """The changes of a reference that an aspect has words for."""
    return [
        (attribute, value)
        for attribute in SCENE_ATTRIBUTES
        for value in SCENE_VALUES[attribute]
        if value != reference.value(attribute)
        and aspect in clauses(attribute, reference.value(attribute), value)
    ]


def draw_negative(
    rng: Random,
    reference: Scene,
    target: Scene,
    changes: list[Change],
    misread: MisreadPart,
) -> Scene:
    """The target with one wrong value, which the reference does not have either."""
    mentioned = {attribute for attribute, _ in changes}
    names = [name for name in SCENE_ATTRIBUTES if (name in mentioned) == (misread == "text")]
    attribute = rng.choice(names)
    right = {target.value(attribute), reference.value(attribute)}
    wrong = [value for value in SCENE_VALUES[attribute] if value not in right]
    return target.changed(attribute, rng.choice(wrong))
