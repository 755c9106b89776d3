"""Parsed texts, compared with the triplets that they describe."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from hsfiq.drawn import SYSTEMS, Garment, catalogue, corpus, draw_triplets, garment_of, set_utility
from hsfiq.drawn.garments import ATTRIBUTES, VALUES
from hsfiq.drawn.triplets import DrawnTriplet
from hsfiq.drawn.utility import read, set_utility_as_read
from hsfiq.errors import UnreadableInput
from hsfiq.text import joined

REFERENCE = Garment("dress", "black", "short", "plain", "round", "none")


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(Random(0), 200)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_triplets(Random(1), garments, 900)


def meaning_of(text: str, reference: Garment = REFERENCE) -> dict[str, set[str]]:
    possible = read(text, reference)
    return {
        name: {triplet.target.value(name) for triplet in possible}
        for name in ATTRIBUTES
        if name in possible[0].mentioned
    }


def test_every_text_is_parsed_and_its_reading_includes_the_target(
    triplets: tuple[DrawnTriplet, ...],
) -> None:
    n_exact = 0
    for triplet in triplets:
        for captions in (triplet.captions, triplet.captions[::-1]):
            possible = read(joined(captions), triplet.reference)
            assert {reading.mentioned for reading in possible} == {triplet.mentioned}
            meanings = [
                {name: reading.target.value(name) for name in reading.mentioned}
                for reading in possible
            ]
            assert {name: triplet.target.value(name) for name in triplet.mentioned} in meanings
            n_exact += len(possible) == 1
    assert 0.85 < n_exact / (2 * len(triplets)) < 1


def test_utilities_of_exact_texts_are_true_and_of_loose_texts_close(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    n_same = differing = 0
    for triplet in triplets[:150]:
        possible = read(joined(triplet.captions), triplet.reference)
        images = corpus(garments, triplet.category)
        image_sets = [
            [garment_of(name) for name in system.rank(triplet, images, 7).images[:5]]
            for system in SYSTEMS
        ]
        true = [set_utility(triplet, image_set) for image_set in image_sets]
        as_read = [set_utility_as_read(possible, image_set) for image_set in image_sets]
        if len(possible) == 1:
            assert as_read == true
        assert all(
            read_utility >= true_utility - 1e-12
            for read_utility, true_utility in zip(as_read, true, strict=True)
        )
        for first, second in combinations(range(len(image_sets)), 2):
            if true[first] != true[second]:
                is_same = (true[first] > true[second]) == (as_read[first] > as_read[second])
                n_same, differing = n_same + is_same, differing + (not is_same)
    assert n_same > 50 * differing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("is red", {"colour": {"red"}}),
        ("is red and not black", {"colour": {"red"}}),
        ("Is red instead of black and it is lighter in color", {"colour": {"red"}}),
        ("is lighter in color", {"colour": {*VALUES["colour"]} - {"black"}}),
        ("has longer sleeves", {"sleeve": {"three-quarter", "long"}}),
        ("has longer sleeves and the dress has full length sleeves", {"sleeve": {"long"}}),
        ("has a busier print", {"pattern": {*VALUES["pattern"]} - {"plain"}}),
        ("has checks with a collar", {"pattern": {"checked"}, "neckline": {"collar"}}),
        ("has a star on it, has a v neck", {"neckline": {"v"}, "logo": {"star"}}),
    ],
)
def test_the_meaning_of_phrases(text: str, expected: dict[str, set[str]]) -> None:
    assert meaning_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "is", "is more elegant", "is red and is blue", "is black", "red", "is redis blue",
        "is red and", "is a red shirt",
        "is red with long sleeves with a v neck and is striped and has a star on it",
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_caption_of_this_reference(text: str) -> None:
    with pytest.raises(UnreadableInput, match="not a caption of the drawn catalogue"):
        read(text, REFERENCE)
