"""Garments as attributes, and catalogues of them.

A garment is defined by its attributes, so two garments with the same attributes are the same image.
The image id is a fixed permutation of the garment's number among all garments: it does not depend
on the seed or on the catalogue's size, and does not reveal the attributes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import chain, product
from random import Random
from typing import TYPE_CHECKING, Literal, get_args

from hsfiq.errors import HsfiqError, InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

Category = Literal["dress", "shirt", "toptee"]
Colour = Literal["black", "white", "grey", "red", "pink", "yellow", "green", "blue"]
Sleeve = Literal["none", "short", "three-quarter", "long"]
Pattern = Literal["plain", "striped", "checked", "dotted", "floral"]
Neckline = Literal["round", "v", "collar"]
Logo = Literal["none", "star", "circle", "text"]
Attribute = Literal["colour", "sleeve", "pattern", "neckline", "logo"]

CATEGORIES: tuple[Category, ...] = get_args(Category)
ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)
VALUES: dict[Attribute, tuple[str, ...]] = {
    "colour": get_args(Colour),
    "sleeve": get_args(Sleeve),
    "pattern": get_args(Pattern),
    "neckline": get_args(Neckline),
    "logo": get_args(Logo),
}
"""The values of each attribute; sleeves from shortest to longest."""

HELD_OUT: frozenset[tuple[str, str]] = frozenset(
    {
        ("black", "floral"),
        ("white", "dotted"),
        ("grey", "checked"),
        ("red", "striped"),
        ("pink", "checked"),
        ("yellow", "floral"),
        ("green", "dotted"),
        ("blue", "striped"),
    }
)
"""(colour, pattern) combinations that no triplet of `train` or `val` has on either side."""

PER_CATEGORY = math.prod(len(values) for values in VALUES.values())
"""The number of distinct garments of a category: 1,920."""

_N_GARMENTS = PER_CATEGORY * len(CATEGORIES)
# The stride is coprime to the number of garments, so that place -> number is a permutation.
_STRIDE, _SHIFT = 2287, 911
_INVERSE_STRIDE = pow(_STRIDE, -1, _N_GARMENTS)

# As in shops, plain garments and garments without a logo are more common than a uniform draw gives.
_WEIGHTS = {("pattern", "plain"): 1.6, ("logo", "none"): 3.5}


class CatalogueTooSmall(HsfiqError, ValueError):
    """More garments or triplets were requested than exist."""


@dataclass(frozen=True, slots=True, order=True)
class Garment:
    """A drawn garment; `InvalidRecord` if an attribute has an invalid value."""

    category: Category
    colour: Colour
    sleeve: Sleeve
    pattern: Pattern
    neckline: Neckline
    logo: Logo

    def __post_init__(self) -> None:
        if self.category not in CATEGORIES:
            raise InvalidRecord(f"no garment has the category {self.category!r}")
        for attribute in ATTRIBUTES:
            if self.value(attribute) not in VALUES[attribute]:
                raise InvalidRecord(f"no garment has the {attribute} {self.value(attribute)!r}")

    def value(self, attribute: Attribute) -> str:
        value: str = getattr(self, attribute)
        return value

    @property
    def image_id(self) -> str:
        """The image's outside id, such as `g0042`."""
        return _image_id(self)

    @property
    def held_out(self) -> bool:
        """Whether only `test` may have this garment as a target."""
        return (self.colour, self.pattern) in HELD_OUT


@cache
def _image_id(garment: Garment) -> str:
    place = CATEGORIES.index(garment.category)
    for attribute in ATTRIBUTES:
        values = VALUES[attribute]
        place = place * len(values) + values.index(garment.value(attribute))
    return f"g{(place * _STRIDE + _SHIFT) % _N_GARMENTS:04d}"


def garment_of(image_id: str) -> Garment:
    """Return the garment of an image id, without a catalogue; `InvalidRecord` if there is none."""
    number = int(image_id[1:]) if re.fullmatch("g[0-9]{4}", image_id) else _N_GARMENTS
    if number >= _N_GARMENTS:
        raise InvalidRecord(f"{image_id!r} is not an image of the drawn catalogue")
    place = (number - _SHIFT) * _INVERSE_STRIDE % _N_GARMENTS
    values: dict[str, str] = {}
    for attribute in reversed(ATTRIBUTES):
        place, index = divmod(place, len(VALUES[attribute]))
        values[attribute] = VALUES[attribute][index]
    return Garment(CATEGORIES[place], **values)  # type: ignore[arg-type]  # checked by Garment


def differences(garment: Garment, other: Garment) -> tuple[Attribute, ...]:
    """Return the attributes in which two garments differ, in the order of `ATTRIBUTES`."""
    return tuple(name for name in ATTRIBUTES if garment.value(name) != other.value(name))


def generator(seed: int, *purpose: str) -> Random:
    """Return a generator that depends on the seed and its purpose alone, in every process.

    So what one draws, such as for a system and a query, does not depend on the use of another.
    """
    key = "\0".join((str(seed), *purpose))
    return Random(int.from_bytes(sha256(key.encode()).digest()[:8], "big"))  # noqa: S311 (no secret)


def catalogue(rng: Random, n_per_category: int) -> tuple[Garment, ...]:
    """Draw `n_per_category` distinct garments of each category; return them by image id.

    Raises:
        CatalogueTooSmall: the number is not from 1 to `PER_CATEGORY`.
    """
    if not 1 <= n_per_category <= PER_CATEGORY:
        raise CatalogueTooSmall(
            f"a category has 1 to {PER_CATEGORY} distinct garments, not {n_per_category}"
        )
    drawn = chain.from_iterable(_draw_category(rng, name, n_per_category) for name in CATEGORIES)
    return tuple(sorted(drawn, key=lambda garment: garment.image_id))


def corpus(garments: Iterable[Garment], category: Category) -> tuple[Garment, ...]:
    """Return the garments of a category, the candidates for its queries."""
    return tuple(garment for garment in garments if garment.category == category)


def _draw_category(rng: Random, category: Category, n: int) -> list[Garment]:
    """Draw `n` garments of a category without replacement, by their weights."""
    keyed = []
    for values in product(*VALUES.values()):
        garment = Garment(category, *values)  # type: ignore[arg-type]  # from VALUES
        # Efraimidis and Spirakis (2006): the n largest of u^(1/weight) are a weighted sample.
        keyed.append((rng.random() ** (1 / _weight(garment)), garment))
    keyed.sort(reverse=True)
    return [garment for _, garment in keyed[:n]]


def _weight(garment: Garment) -> float:
    return math.prod(_WEIGHTS.get((name, garment.value(name)), 1.0) for name in ATTRIBUTES)
