from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from hsfiq.drawn.garments import (
    ATTRIBUTES,
    Attribute,
    CatalogueTooSmall,
    Garment,
    catalogue,
    corpus,
    differences,
)
from hsfiq.drawn.triplets import DrawnTriplet, draw_split, draw_triplets, target_split
from hsfiq.errors import InvalidRecord
from hsfiq.records import Triplet


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(Random(0), 200)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_triplets(Random(1), garments, 400)


def test_ids_consist_of_category_split_and_index(triplets: tuple[DrawnTriplet, ...]) -> None:
    places: Counter[str] = Counter()
    for triplet in triplets:
        kind = f"{triplet.category}.{triplet.split}"
        assert triplet.external_id == f"{kind}.{places[kind]}"
        places[kind] += 1
    assert len(triplets) == 400
    assert len(places) == 9


def test_held_out_combinations_are_targets_of_test_only(triplets: tuple[DrawnTriplet, ...]) -> None:
    for triplet in triplets:
        assert triplet.target.held_out == (triplet.split == "test")
        assert triplet.split == "test" or not triplet.reference.held_out


def test_a_garment_is_a_target_in_one_split_only(garments: tuple[Garment, ...]) -> None:
    triplets = draw_triplets(Random(2), garments, 3000)
    assert all(target_split(triplet.target) == triplet.split for triplet in triplets)
    shares = Counter(target_split(garment) for garment in garments)
    assert all(shares[split] > 60 for split in ("train", "val", "test"))


def test_each_target_is_used_once_before_any_repeats(garments: tuple[Garment, ...]) -> None:
    n_targets = sum(target_split(garment) == "train" for garment in corpus(garments, "shirt"))
    triplets = draw_split(Random(0), garments, "shirt", "train", n_targets + 5)
    first = {triplet.target for triplet in triplets[:n_targets]}
    assert len(first) == n_targets
    assert len({(triplet.reference, triplet.target) for triplet in triplets}) == len(triplets)


def test_one_two_or_three_attributes_differ(
    triplets: tuple[DrawnTriplet, ...],
) -> None:
    counts = Counter(len(differences(triplet.reference, triplet.target)) for triplet in triplets)
    assert set(counts) == {1, 2, 3}
    assert all(triplet.reference.category == triplet.target.category for triplet in triplets)


def test_the_record_omits_the_ground_truth(triplets: tuple[DrawnTriplet, ...]) -> None:
    drawn = triplets[0]
    assert drawn.record() == Triplet(
        external_id="dress.train.0",
        reference=drawn.reference.image_id,
        target=drawn.target.image_id,
        captions=drawn.captions,
        category="dress",
        split="train",
    )


@pytest.mark.parametrize("mentioned", [frozenset(), frozenset(ATTRIBUTES)])
def test_a_triplet_mentions_some_attributes_and_not_all(
    triplets: tuple[DrawnTriplet, ...], mentioned: frozenset[Attribute]
) -> None:
    with pytest.raises(InvalidRecord, match="mentions no attribute"):
        replace(triplets[0], mentioned=mentioned)


def test_triplets_depend_on_the_seed_and_need_a_large_catalogue(
    garments: tuple[Garment, ...],
) -> None:
    assert draw_triplets(Random(3), garments, 50) == draw_triplets(Random(3), garments, 50)
    assert draw_triplets(Random(3), garments, 50) != draw_triplets(Random(4), garments, 50)
    with pytest.raises(CatalogueTooSmall, match="draw a larger catalogue"):
        draw_triplets(Random(0), catalogue(Random(0), 5), 300)
