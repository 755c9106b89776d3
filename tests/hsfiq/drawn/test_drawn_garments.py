from collections import Counter
from itertools import product
from random import Random

import pytest

from hsfiq.drawn.garments import (
    ATTRIBUTES,
    CATEGORIES,
    HELD_OUT,
    PER_CATEGORY,
    VALUES,
    CatalogueTooSmall,
    Garment,
    catalogue,
    corpus,
    differences,
    garment_of,
)
from hsfiq.errors import InvalidRecord


def test_image_ids_are_unique_and_reversible() -> None:
    all_garments = [
        Garment(category, *values)  # type: ignore[arg-type]
        for category in CATEGORIES
        for values in product(*VALUES.values())
    ]
    ids = {garment.image_id for garment in all_garments}
    assert len(ids) == len(all_garments) == 3 * PER_CATEGORY
    assert all(garment_of(garment.image_id) == garment for garment in all_garments)


@pytest.mark.parametrize("name", ["g5760", "g12", "0012", "x0012", "g-001", "g00012", "", "g²²²²"])
def test_a_foreign_image_id_is_refused(name: str) -> None:
    with pytest.raises(InvalidRecord, match="not an image of the drawn catalogue"):
        garment_of(name)


def test_a_garment_refuses_invalid_values() -> None:
    with pytest.raises(InvalidRecord, match="colour 'beige'"):
        Garment("dress", "beige", "none", "plain", "v", "none")  # type: ignore[arg-type]
    with pytest.raises(InvalidRecord, match="category 'hat'"):
        Garment("hat", "red", "none", "plain", "v", "none")  # type: ignore[arg-type]


def test_a_catalogue_has_distinct_garments_and_equal_categories() -> None:
    """The image id does not reveal the category."""
    garments = catalogue(Random(0), 200)
    assert catalogue(Random(0), 200) == garments != catalogue(Random(5), 200)
    assert len(set(garments)) == 600
    assert Counter(garment.category for garment in garments) == dict.fromkeys(CATEGORIES, 200)
    assert {garment.category for garment in corpus(garments, "dress")} == {"dress"}
    for name in ATTRIBUTES:
        assert {garment.value(name) for garment in garments} == set(VALUES[name])
    first = Counter(garment.category for garment in garments[:150])
    assert min(first.values()) > 30


@pytest.mark.parametrize("n", [0, PER_CATEGORY + 1])
def test_an_impossible_catalogue_is_refused(n: int) -> None:
    with pytest.raises(CatalogueTooSmall, match="1 to 1920"):
        catalogue(Random(0), n)


def test_every_colour_and_pattern_occurs_outside_the_held_out_combinations() -> None:
    kept = set(product(VALUES["colour"], VALUES["pattern"])) - HELD_OUT
    assert {colour for colour, _ in kept} == set(VALUES["colour"])
    assert {pattern for _, pattern in kept} == set(VALUES["pattern"])
    assert all(
        colour in VALUES["colour"] and kind in VALUES["pattern"] for colour, kind in HELD_OUT
    )


def test_differences_are_the_attributes_that_differ() -> None:
    first = Garment("shirt", "red", "long", "plain", "v", "none")
    second = Garment("shirt", "blue", "long", "plain", "v", "star")
    assert differences(first, second) == ("colour", "logo")
    assert differences(first, first) == ()
