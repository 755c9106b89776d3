"""What a reader makes of a text, held against the triplet that it was written for."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from hsfiq.drawn import SYSTEMS, Garment, catalogue, corpus, draw_triplets, garment_of, set_utility
from hsfiq.drawn.garments import ATTRIBUTES, VALUES
from hsfiq.drawn.reading import read, set_utility_as_read
from hsfiq.drawn.triplets import DrawnTriplet
from hsfiq.errors import UnreadableInput
from hsfiq.text import joined

REFERENCE = Garment("dress", "black", "short", "plain", "round", "none")


@pytest.fixture(scope="module")
def garments() -> tuple[Garment, ...]:
    return catalogue(Random(0), 200)


@pytest.fixture(scope="module")
def triplets(garments: tuple[Garment, ...]) -> tuple[DrawnTriplet, ...]:
    return draw_triplets(Random(1), garments, 900)


def wanted(text: str, reference: Garment = REFERENCE) -> dict[str, set[str]]:
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
            assert {one.mentioned for one in possible} == {triplet.mentioned}
            meant = [{name: one.target.value(name) for name in one.mentioned} for one in possible]
            assert {name: triplet.target.value(name) for name in triplet.mentioned} in meant
            n_exact += len(possible) == 1
    assert 0.85 < n_exact / (2 * len(triplets)) < 1


def test_utilities_of_exact_texts_are_true_and_of_loose_texts_close(
    garments: tuple[Garment, ...], triplets: tuple[DrawnTriplet, ...]
) -> None:
    same = differing = 0
    for triplet in triplets[:150]:
        possible = read(joined(triplet.captions), triplet.reference)
        images = corpus(garments, triplet.category)
        shown = [
            [garment_of(name) for name in system.rank(triplet, images, 7).images[:5]]
            for system in SYSTEMS
        ]
        true = [set_utility(triplet, those) for those in shown]
        as_read = [set_utility_as_read(possible, those) for those in shown]
        if len(possible) == 1:
            assert as_read == true
        assert all(one >= other - 1e-12 for one, other in zip(as_read, true, strict=True))
        for one, other in combinations(range(len(shown)), 2):
            if true[one] != true[other]:
                is_same = (true[one] > true[other]) == (as_read[one] > as_read[other])
                same, differing = same + is_same, differing + (not is_same)
    assert same > 50 * differing


@pytest.mark.parametrize(
    ("text", "meant"),
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
def test_the_meaning_of_phrases(text: str, meant: dict[str, set[str]]) -> None:
    assert wanted(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "", "is", "is more elegant", "is red and is blue", "is black", "red", "is redis blue",
        "is red and", "is a red shirt",
        "is red with long sleeves with a v neck and is striped and has a star on it",
    ],
)  # fmt: skip
def test_a_text_that_is_no_caption_of_this_reference(text: str) -> None:
    with pytest.raises(UnreadableInput, match="captions for its reference"):
        read(text, REFERENCE)
