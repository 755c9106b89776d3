"""Texts as the encoders read them."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsfiq.model.data import mining_text, training_text
from hsfiq.model.encoders.encoder import normalise
from hsfiq.model.recipes import CaptionRule

PAIR = ("is Red, with DOTS.", "Has no collar? ")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Is  shorter.   And  RED!", "is shorter and red"),
        ('a "v" neck (deep); #1: ~x*y', "a v neck deep 1 x y"),
        ("3/4 sleeves, isn't it?", "3/4 sleeves, isn't it?"),
        ("says nopedotmark isquestionmark andmark", "says nope is? &"),
        ("a\tb\n", "a\tb"),
        ("a\n\nb", "a b"),
        ("...", ""),
        ("", ""),
        (" ".join(map(str, range(60))), " ".join(map(str, range(50)))),
    ],
)
def test_normalising(text: str, clean: str) -> None:
    assert normalise(text) == clean


def literal_normalise(text: str) -> str:
    """LAVIS' text processor, one character and one word at a time."""
    for escape, character in (
        ("dotmark", "."),
        ("questionmark", "?"),
        ("andmark", "&"),
        ("starmark", "*"),
    ):
        text = text.replace(escape, character)
    spaced = "".join(" " if character in '.!"()*#:;~' else character for character in text.lower())
    short = ""
    place = 0
    while place < len(spaced):
        end = place
        while end < len(spaced) and spaced[end].isspace():
            end += 1
        if end - place >= 2:
            short += " "
            place = end
        else:
            short += spaced[place]
            place += 1
    while short.endswith("\n"):
        short = short[:-1]
    while short.startswith(" "):
        short = short[1:]
    while short.endswith(" "):
        short = short[:-1]
    return " ".join(short.split(" ")[:50])


@given(
    st.lists(
        st.sampled_from(["dotmark", "starmark", " ", "  ", "\n", "\t", ".", '"', "~", "Red", "?"])
    ).map("".join)
)
def test_normalising_equals_the_reference(text: str) -> None:
    assert normalise(text) == literal_normalise(text)


def test_two_captions_are_joined_for_mining() -> None:
    assert mining_text(PAIR) == "Is red, with dots and Has no collar"
    assert normalise(mining_text(PAIR)) == "is red, with dots and has no collar"


def test_a_single_caption_is_unchanged() -> None:
    assert mining_text(["Show two dogs."]) == "Show two dogs."
    assert training_text(["Show two dogs."], "four-way", 0.6) == "Show two dogs."


@pytest.mark.parametrize(
    ("u", "text"),
    [
        (0.0, "Is red, with dots and Has no collar"),
        (0.2499, "Is red, with dots and Has no collar"),
        (0.25, "Has no collar and is Red, with DOTS"),
        (0.5, "Is red, with dots"),
        (0.75, "Has no collar"),
        (0.9999999999999999, "Has no collar"),
    ],
)
def test_four_ways(u: float, text: str) -> None:
    assert training_text(PAIR, "four-way", u) == text
    assert training_text(PAIR, "joined", u) == mining_text(PAIR)


def test_the_four_ways_are_equally_frequent() -> None:
    rng = random.Random(7)
    counts = Counter(training_text(("a", "b"), "four-way", rng.random()) for _ in range(4000))
    assert sorted(counts) == ["A", "A and b", "B", "B and a"]
    assert all(abs(count - 1000) < 100 for count in counts.values())


@pytest.mark.parametrize("rule", ["joined", "four-way"])
@pytest.mark.parametrize("captions", [(), ("a", "b", "c")])
def test_other_numbers_of_captions(rule: CaptionRule, captions: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"one or two captions, not {len(captions)}"):
        training_text(captions, rule, 0.3)


@pytest.mark.parametrize("u", [-0.1, 1.0, float("nan")])
def test_numbers_outside_0_to_1_are_refused(u: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\)"):
        training_text(PAIR, "joined", u)
