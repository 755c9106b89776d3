"""The drawn aspects as a folder of FISD's form. Needs Pillow."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from PIL import Image, ImageDraw

from hsfiq.atomic_files import draft_folder, explained_write_errors, require_new
from hsfiq.drawn.garments import ATTRIBUTES, CATEGORIES, VALUES, Attribute, Garment, generator
from hsfiq.drawn.pictures import FRAME, JPEG_QUALITY, disc_mask, draw, layers
from hsfiq.drawn.shapes import HEIGHT, MIDDLE, WIDTH
from hsfiq.drawn.triplets import NOUNS
from hsfiq.errors import InvalidRecord, UnreadableInput
from hsfiq.readers.datasets import ABOUT_DRAWN, ASPECTS, Aspect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random
    from typing import Any


# Garments with badges to count and a background: a catalogue of its own.
#
# Its image ids differ from those of the other catalogue, and do not reveal the attributes either.

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


# Captions of FISD's aspects on drawn scenes, and their exact reading.
#
# A clause names one attribute and its new value, and all else stays as in the reference. So a
# caption has one reading, which follows from the reference and the text alone.

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip

NAMES: dict[SceneAttribute, dict[str, str]] = {
    "colour": {value: value for value in SCENE_VALUES["colour"]},
    "sleeve": {
        "none": "no sleeves",
        "short": "short sleeves",
        "three-quarter": "three quarter sleeves",
        "long": "long sleeves",
    },
    "pattern": {
        "plain": "a plain fabric",
        "striped": "stripes",
        "checked": "checks",
        "dotted": "polka dots",
        "floral": "flowers",
    },
    "neckline": {"round": "a round neck", "v": "a v neck", "collar": "a collar"},
    "logo": {"none": "no logo", "star": "a star", "circle": "a circle", "text": "lettering"},
    "badges": {
        str(number): f"{word} badge{'' if number == 1 else 's'}"
        for number, word in enumerate(_NUMBERS)
    },
    "background": {
        "studio": "a plain wall",
        "beach": "a beach",
        "meadow": "a green meadow",
        "brick": "a brick wall",
        "night": "a night sky",
        "snow": "a snowy hill",
    },
}

ABSENT: dict[SceneAttribute, str] = {
    "sleeve": "none", "pattern": "plain", "logo": "none", "badges": "0"
}  # fmt: skip
"""The values that mean that something is not there."""

_GENERAL: dict[SceneAttribute, str] = {"sleeve": "sleeves", "badges": "badges"}
"""What is said to be absent, where that does not depend on what was there."""

_VERBS: dict[SceneAttribute, str] = {"colour": "is", "background": "is in front of"}

_SENTENCES = re.compile(r"(?:it|the (?:" + "|".join(NOUNS.values()) + r")) ")
_SEPARATORS = re.compile(r"\. |, | and ")


def clauses(attribute: SceneAttribute, before: str, after: str) -> dict[Aspect, tuple[str, ...]]:
    """The wordings of a difference, by the aspect that they belong to."""
    names, verb = NAMES[attribute], _VERBS.get(attribute, "has")
    both = (
        f"{verb} {names[after]} instead of {names[before]}",
        f"{verb} {names[after]} rather than {names[before]}",
    )
    absent = ABSENT.get(attribute)
    if after == absent:
        thing = _GENERAL.get(attribute, names[before])
        return {
            "negation": (
                f"has no {thing.removeprefix('a ')}",
                f"is without {thing}",
                f"does not have {thing}",
            ),
            "complex": both,
        }
    if before == absent:
        thing = names[after]
        return {
            "addition": (f"has {thing} added", f"now also has {thing}", f"gains {thing}"),
            "complex": both,
        }
    aspects: dict[SceneAttribute, Aspect] = {"badges": "cardinality", "background": "background"}
    return {aspects.get(attribute, "change"): both, "complex": both}


def write_caption(
    rng: Random, aspect: Aspect, reference: Scene, changes: Sequence[tuple[SceneAttribute, str]]
) -> str:
    """Say all changes: in one sentence, or from three on in two."""
    phrases = [
        rng.choice(clauses(attribute, reference.value(attribute), value)[aspect])
        for attribute, value in changes
    ]
    subject = f"the {NOUNS[reference.garment.category]} "
    if len(phrases) < 3:
        return rng.choice(["", subject, "it "]) + " and ".join(phrases)
    half = len(phrases) // 2 + 1
    return f"{subject}{', '.join(phrases[:half])}. it {' and '.join(phrases[half:])}"


def read_caption(caption: str, reference: Scene) -> Scene:
    """The scene that a caption asks for; `UnreadableInput` for a text of other clauses."""
    known = {
        clause: (attribute, value)
        for attribute in SCENE_ATTRIBUTES
        for value in SCENE_VALUES[attribute]
        if value != reference.value(attribute)
        for wordings in clauses(attribute, reference.value(attribute), value).values()
        for clause in wordings
    }
    wanted = reference
    for part in _SEPARATORS.split(caption):
        subject = _SENTENCES.match(part)
        clause = part[subject.end() :] if subject else part
        if clause not in known:
            raise UnreadableInput(f"the text {caption!r}", "is no caption of its reference")
        wanted = wanted.changed(*known[clause])
    return wanted


# Pictures of scenes: a drawn garment with its badges, before its background. Needs Pillow.

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


# Triplets of FISD's six aspects, fully informed by construction.
#
# A caption's exact reading is the target, and no other image of the corpus is that scene, so each
# query has one best image. Hard negatives take turns: one has the target's silent attributes and a
# wrong value of a mentioned one (nearly what is said), the other the mentioned values and a wrong
# silent attribute (nearly the reference).

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


# The drawn aspects as a folder that `hsfiq.readers.datasets` reads. Needs Pillow.

IMAGES = "images"


def write_drawn_fisd(folder: Path, seed: int, n: int) -> int:
    """Draw n triplets of each aspect into a new folder; returns the number of pictures.

    Raises:
        UnreadableInput: the folder exists, or cannot be written.
    """
    require_new(folder)
    aspects = draw_aspects(seed, n)
    scenes = {scene for triplets in aspects.values() for each in triplets for scene in each.scenes}
    with explained_write_errors(folder), draft_folder(folder) as draft:
        (draft / IMAGES).mkdir()
        write_scenes(sorted(scenes), draft / IMAGES)
        for aspect, triplets in aspects.items():
            lines = "".join(json.dumps(row_of(triplet)) + "\n" for triplet in triplets)
            (draft / f"{aspect}.jsonl").write_text(lines, encoding="utf-8")
        about = {"name": "fisd-drawn", "seed": seed, "triplets": n, "images": len(scenes)}
        (draft / ABOUT_DRAWN).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return len(scenes)


def row_of(triplet: SceneTriplet) -> dict[str, str]:
    """`misread` is the part of the query that the hard negative does not fit."""
    return {
        "id": triplet.triplet_id,
        "aspect": triplet.aspect,
        "reference": triplet.reference.image_id,
        "target": triplet.target.image_id,
        "hard_negative": triplet.hard_negative.image_id,
        "misread": triplet.misread,
        "caption": triplet.caption,
    }
