import re
from random import Random

import pytest

from hsfiq.drawn.garments import VALUES, Garment, catalogue, differences
from hsfiq.drawn.triplets import DrawnTriplet, draw_triplets, write_captions
from hsfiq.errors import InvalidRecord

WORDS = {
    "colour": r"\b(color|darker|lighter|black|white|grey|red|pink|yellow|green|blue)\b",
    "sleeve": r"sleeve",
    "pattern": r"plain|solid|pattern|print|stripe|check|plaid|dot|floral|flower",
    "neckline": r"neck|collar",
    "logo": r"logo|graphic|star|circle|emblem|text|lettering|word",
}
"""Patterns by which a caption mentions an attribute."""

PATTERN_WORDS = {
    "striped": r"stripe",
    "checked": r"check|plaid",
    "dotted": r"\bdot|polka",
    "floral": r"floral|flower",
    "plain": r"plain\b|solid",
}


@pytest.fixture(scope="module")
def triplets() -> tuple[DrawnTriplet, ...]:
    return draw_triplets(Random(1), catalogue(Random(0), 200), 900)


def spoken_of(text: str) -> set[str]:
    text = text.lower()
    return {name for name, pattern in WORDS.items() if re.search(pattern, text)}


def test_captions_mention_only_true_differences(triplets: tuple[DrawnTriplet, ...]) -> None:
    """There are two, which differ and name no image."""
    for triplet in triplets:
        different = set(differences(triplet.reference, triplet.target))
        first, second = (spoken_of(text) for text in triplet.captions)
        assert first | second == triplet.mentioned, triplet
        assert triplet.mentioned <= different
        assert first
        assert second
        assert len({text.lower() for text in triplet.captions}) == 2
        assert not any(re.search(r"g\d", text) for text in triplet.captions)


def test_captions_name_values_of_the_two_garments_only(triplets: tuple[DrawnTriplet, ...]) -> None:
    for triplet in triplets:
        text = " ".join(triplet.captions).lower()
        colours = {name for name in VALUES["colour"] if re.search(rf"\b{name}\b", text)}
        assert colours <= {triplet.reference.colour, triplet.target.colour}
        patterns = {name for name, words in PATTERN_WORDS.items() if re.search(words, text)}
        assert patterns <= {triplet.reference.pattern, triplet.target.pattern}


def test_comparisons_have_the_right_direction(triplets: tuple[DrawnTriplet, ...]) -> None:
    lengths = VALUES["sleeve"]
    phrases = {"longer sleeve": 1, "shorter sleeve": -1}
    seen_phrases = set()
    for triplet in triplets:
        text = " ".join(triplet.captions).lower()
        step = lengths.index(triplet.target.sleeve) - lengths.index(triplet.reference.sleeve)
        for phrase, direction in phrases.items():
            if phrase in text:
                seen_phrases.add(phrase)
                assert step * direction > 0
        if "busier" in text:
            assert triplet.reference.pattern == "plain"
        if "no print" in text:
            assert triplet.target.pattern == "plain"
    assert seen_phrases == set(phrases)


def test_some_captions_leave_differences_out(triplets: tuple[DrawnTriplet, ...]) -> None:
    left_out = [
        triplet
        for triplet in triplets
        if triplet.mentioned < set(differences(triplet.reference, triplet.target))
    ]
    assert 0.05 < len(left_out) / len(triplets) < 0.4


def test_captions_are_mostly_lower_case_and_varied(
    triplets: tuple[DrawnTriplet, ...],
) -> None:
    texts = [text for triplet in triplets for text in triplet.captions]
    assert sum(text == text.lower() for text in texts) / len(texts) > 0.85
    assert len(set(texts)) > len(texts) / 2


def test_captions_need_two_garments_of_one_category() -> None:
    shirt = Garment("shirt", "red", "long", "plain", "v", "none")
    dress = Garment("dress", "blue", "long", "plain", "v", "none")
    for target in (shirt, dress):
        with pytest.raises(InvalidRecord, match="two different garments"):
            write_captions(Random(0), shirt, target)
