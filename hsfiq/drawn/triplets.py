"""Triplets drawn from a catalogue, in FashionIQ's three splits.

A garment is a target in one split only: in `test` if its combination of colour and pattern is
held out, else in `val` (a fixed share) or `train`. So no target of the training is a target
again, and `test` has combinations that do not occur in training.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from hsfiq.drawn.garments import (
    ATTRIBUTES,
    CATEGORIES,
    VALUES,
    Attribute,
    CatalogueTooSmall,
    Category,
    Garment,
    corpus,
    differences,
)
from hsfiq.errors import InvalidRecord
from hsfiq.ids import triplet_id
from hsfiq.records import Triplet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random


# Captions in FashionIQ's style, from the attributes in which two garments differ.
#
# As in FashionIQ, two writers each mention only some of the differences, exactly ("has three
# quarter sleeves") or vaguely ("has longer sleeves"). Every statement is true.

T = TypeVar("T")

NOUNS = {"dress": "dress", "shirt": "shirt", "toptee": "top"}

MENTION_RATES = (0.75, 0.6)
"""The probability that each writer mentions a difference; both mention at least one."""

# From dark to light.
_LIGHTNESS = {
    "black": 0, "blue": 2, "red": 2, "green": 2, "grey": 3, "pink": 5, "yellow": 5, "white": 6,
}  # fmt: skip
_LIGHTNESS_STEP = 2  # colours that differ by less are not called darker or lighter

_SLEEVES: dict[str, tuple[str, ...]] = {
    "none": ("is sleeveless", "has no sleeves", "is without sleeves"),
    "short": ("has short sleeves", "is short sleeved", "has sleeves that are short"),
    "three-quarter": (
        "has three quarter sleeves",
        "has elbow length sleeves",
        "has 3/4 length sleeves",
    ),
    "long": ("has long sleeves", "is long sleeved", "has full length sleeves"),
}
_PATTERNS: dict[str, tuple[str, ...]] = {
    "plain": ("is plain", "is a solid with no pattern", "has no print"),
    "striped": ("is striped", "has stripes", "has horizontal stripes", "has a striped pattern"),
    "checked": ("is checkered", "has a plaid pattern", "is plaid", "has checks"),
    "dotted": ("has polka dots", "is dotted", "has a polka dot print"),
    "floral": ("has a floral print", "is floral", "has flowers all over", "has a flower pattern"),
}
_PATTERN_NOUNS = {
    "plain": "a plain fabric",
    "striped": "stripes",
    "checked": "checks",
    "dotted": "dots",
    "floral": "flowers",
}
_NECKLINES: dict[str, tuple[str, ...]] = {
    "round": ("has a round neck", "has a crew neck", "has a rounded neckline"),
    "v": ("has a v neck", "is v-necked", "has a v-shaped neckline", "has a deep v neck"),
    "collar": ("has a collar", "is collared", "has a folded collar"),
}
_LOGOS: dict[str, tuple[str, ...]] = {
    "none": ("has no logo", "has no graphic", "is without a graphic"),
    "star": ("has a star on it", "has a star graphic", "has a star logo"),
    "circle": ("has a circle on it", "has a round emblem", "has a circle logo"),
    "text": ("has text on it", "has lettering", "has a word on the chest", "has a text graphic"),
}
_WORDINGS: dict[Attribute, dict[str, tuple[str, ...]]] = {
    "sleeve": _SLEEVES,
    "pattern": _PATTERNS,
    "neckline": _NECKLINES,
    "logo": _LOGOS,
}


_WITH_RATE, _CAPITAL_RATE = 0.5, 0.06
# After one of these words, "with" would change the meaning.
_NO_WITH_AFTER = frozenset({"with", "without", "instead", "not", "no"})
_CONJUNCTIONS = (" and ", " and ", ", ")
_SUBJECT_WEIGHTS = (88, 4, 8)


@dataclass(frozen=True, slots=True)
class Captions:
    """The two captions of a triplet, and the attributes that at least one of them mentions."""

    texts: tuple[str, str]
    mentioned: frozenset[Attribute]


def write_captions(rng: Random, reference: Garment, target: Garment) -> Captions:
    """Write two captions of the differences; `InvalidRecord` if none, or of two categories."""
    different = differences(reference, target)
    if not different or reference.category != target.category:
        raise InvalidRecord(
            f"no caption leads from {reference.image_id} to {target.image_id}: "
            "two different garments of one category are needed"
        )
    # The writers use different phrases for the same difference.
    phrases = {name: _shuffled(rng, phrases_for(name, reference, target)) for name in different}
    mentioned = [_choose(rng, different, rate) for rate in MENTION_RATES]
    first, second = (
        _sentence(rng, [phrases[name][writer] for name in names], NOUNS[target.category])
        for writer, names in enumerate(mentioned)
    )
    return Captions((first, second), frozenset(mentioned[0]) | frozenset(mentioned[1]))


def _shuffled(rng: Random, values: list[T]) -> list[T]:
    return rng.sample(values, len(values))


def _choose(rng: Random, names: tuple[Attribute, ...], rate: float) -> list[Attribute]:
    """Draw the differences that one writer mentions, in random order."""
    return _shuffled(rng, [name for name in names if rng.random() < rate] or [rng.choice(names)])


def describe(rng: Random, garment: Garment) -> str:
    """Write one caption of a garment alone: every attribute, in random order and wording."""
    noun = NOUNS[garment.category]
    phrases = [
        rng.choice([f"is {garment.colour}", f"is {garment.colour} in color"]),
        *(rng.choice(wordings[garment.value(name)]) for name, wordings in _WORDINGS.items()),
    ]
    return f"the {noun} " + " and ".join(_shuffled(rng, phrases))


def phrases_for(attribute: Attribute, reference: Garment, target: Garment) -> list[str]:
    """Return all phrases for a difference; each begins with `is` or `has`."""
    before, after = reference.value(attribute), target.value(attribute)
    if attribute == "colour":
        return _colour_phrases(before, after, NOUNS[target.category])
    if attribute == "sleeve":
        return [*_SLEEVES[after], *_sleeve_comparisons(before, after)]
    if attribute == "pattern":
        return [*_PATTERNS[after], *_pattern_comparisons(before, after)]
    return list(_WORDINGS[attribute][after])


def _colour_phrases(before: str, after: str, noun: str) -> list[str]:
    phrases = [
        f"is {after}",
        f"is {after} in color",
        f"is a {after} {noun}",
        f"has a {after} color",
        f"is {after} instead of {before}",
        f"is {after} and not {before}",
    ]
    step = _LIGHTNESS[after] - _LIGHTNESS[before]
    if abs(step) >= _LIGHTNESS_STEP:
        phrases.append("is lighter in color" if step > 0 else "is darker")
    return phrases


def _sleeve_comparisons(before: str, after: str) -> list[str]:
    lengths = VALUES["sleeve"]
    if after == "none":
        return []
    longer = lengths.index(after) > lengths.index(before)
    return ["has longer sleeves", "is longer sleeved"] if longer else ["has shorter sleeves"]


def _pattern_comparisons(before: str, after: str) -> list[str]:
    if before == "plain":
        return ["has a busier print"]
    if after == "plain":
        return [f"has no {_PATTERN_NOUNS[before]}", "is less patterned"]
    return [f"has {_PATTERN_NOUNS[after]} instead of {_PATTERN_NOUNS[before]}"]


def _sentence(rng: Random, phrases: list[str], noun: str) -> str:
    """Join a writer's phrases in FashionIQ's style: mostly lower case, often without a subject."""
    text = phrases[0]
    for phrase in phrases[1:]:
        fits_with = phrase.startswith("has ") and not _NO_WITH_AFTER.intersection(text.split())
        if fits_with and rng.random() < _WITH_RATE:
            text += " with " + phrase.removeprefix("has ")
        else:
            text += rng.choice(_CONJUNCTIONS) + phrase
    text = rng.choices(["", "it ", f"the {noun} "], _SUBJECT_WEIGHTS)[0] + text
    return text.capitalize() if rng.random() < _CAPITAL_RATE else text


Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

SHARES: dict[Split, float] = {"train": 0.5, "val": 0.3, "test": 0.2}
"""The share of each split in `draw_triplets`, about that of its possible targets."""

N_DIFFERENCES = (1, 2, 3)
"""The numbers of attributes in which a target may differ from its reference."""
_DIFFERENCE_WEIGHTS = (25, 45, 30)

_VAL_SHARE = 0.375  # of the targets that are not held out: 0.3 of all


@dataclass(frozen=True, slots=True)
class DrawnTriplet:
    """A triplet with its two garments, and so with its ground truth.

    `mentioned` are the attributes that the captions mention, at least one but not every one (else
    `InvalidRecord`): the ideal image has the target's values there, the reference's elsewhere.
    """

    external_id: str
    split: Split
    reference: Garment
    target: Garment
    captions: tuple[str, str]
    mentioned: frozenset[Attribute]

    def __post_init__(self) -> None:
        if not 0 < len(self.mentioned) < len(ATTRIBUTES):
            raise InvalidRecord(f"triplet {self.external_id} mentions no attribute, or every one")

    @property
    def category(self) -> Category:
        return self.reference.category

    def record(self) -> Triplet:
        """Return the triplet as a record, without the ground truth."""
        return Triplet(
            external_id=self.external_id,
            reference=self.reference.image_id,
            target=self.target.image_id,
            captions=self.captions,
            category=self.category,
            split=self.split,
        )


def target_split(garment: Garment) -> Split:
    """Return the only split in which a garment may be a target, in every catalogue."""
    if garment.held_out:
        return "test"
    draw = int.from_bytes(sha256(garment.image_id.encode()).digest()[:4], "big") / 2**32
    return "val" if draw < _VAL_SHARE else "train"


def draw_triplets(rng: Random, garments: Sequence[Garment], n: int) -> tuple[DrawnTriplet, ...]:
    """Draw `n` triplets, about equally many of each category, over the splits by `SHARES`.

    Raises:
        CatalogueTooSmall: a split of a category has too few (reference, target) pairs.
    """
    per_category, remainder = divmod(n, len(CATEGORIES))
    drawn: list[DrawnTriplet] = []
    for place, category in enumerate(CATEGORIES):
        size_of_category = per_category + (place < remainder)
        n_val, n_test = (round(size_of_category * SHARES[split]) for split in ("val", "test"))
        sizes = (size_of_category - n_val - n_test, n_val, n_test)
        for split, size in zip(SPLITS, sizes, strict=True):
            drawn += draw_split(rng, garments, category, split, size)
    return tuple(drawn)


def draw_split(
    rng: Random, garments: Sequence[Garment], category: Category, split: Split, n: int
) -> tuple[DrawnTriplet, ...]:
    """Draw the triplets of one category and split, numbered from 0.

    No target occurs twice before each has occurred once, and no (reference, target) pair twice.

    Raises:
        CatalogueTooSmall: the garments give fewer than `n` triplets.
    """
    candidates = corpus(garments, category)
    allowed = [garment for garment in candidates if split == "test" or not garment.held_out]
    targets = [garment for garment in candidates if target_split(garment) == split]
    references = {target: _references_in_turn(rng, allowed, target) for target in targets}
    drawn: list[DrawnTriplet] = []
    while references and len(drawn) < n:
        for target in rng.sample(list(references), len(references)):
            reference = next(references[target], None)
            if reference is None:
                del references[target]
            elif len(drawn) < n:
                captions = write_captions(rng, reference, target)
                name = triplet_id(category, split, len(drawn))
                drawn.append(
                    DrawnTriplet(name, split, reference, target, captions.texts, captions.mentioned)
                )
    if len(drawn) < n:
        raise CatalogueTooSmall(
            f"{len(candidates)} {category} garments give {len(drawn)} triplets of split {split}, "
            f"not {n}; draw a larger catalogue"
        )
    return tuple(drawn)


def _references_in_turn(
    rng: Random, garments: Sequence[Garment], target: Garment
) -> Iterator[Garment]:
    """Yield a target's possible references, each once; draw the number of differences first.

    Few garments differ in only one attribute, so a uniform draw would hardly ever give one.
    """
    by_count: dict[int, list[Garment]] = defaultdict(list)
    for garment in garments:
        by_count[len(differences(garment, target))].append(garment)
    left = {count: by_count[count] for count in N_DIFFERENCES if by_count[count]}
    while left:
        weights = [_DIFFERENCE_WEIGHTS[N_DIFFERENCES.index(count)] for count in left]
        count = rng.choices(list(left), weights)[0]
        yield left[count].pop(rng.randrange(len(left[count])))
        if not left[count]:
            del left[count]
