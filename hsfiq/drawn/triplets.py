"""Triplets drawn from a catalogue, in FashionIQ's three splits.

A garment is a target in one split only: in `test` if its combination of colour and pattern is held
out, else in `val` (a fixed share) or `train`. So no target of the training is a target again, and
`test` has combinations that do not occur in training.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, get_args

from hsfiq.drawn.captions import write_captions
from hsfiq.drawn.garments import (
    ATTRIBUTES,
    CATEGORIES,
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
