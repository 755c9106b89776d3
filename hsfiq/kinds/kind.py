"""What every question kind has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hsfiq.answer_rules import ImageStates, Times
from hsfiq.errors import Refused

SAME_WITHIN = 0.25
"""Scores and levels that are given again agree within this share of the scale, on average."""

KindName = Literal["pair", "single", "images", "ranking", "query", "search", "arena"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a study allows in an answer.

    `points` and `levels` are those of the scales for sets and for images, `k` counts the images of
    a set.
    """

    points: int
    k: int
    n_sets: int
    ties: bool
    levels: int = 2


@dataclass(frozen=True, slots=True)
class Judgement:
    """One participant's answer to a question of another kind than `pair`.

    `values` is what the kind has read; `irrelevant` is None if the page has no flag, `images` if
    the states of the images are unknown, and `extra`, the answers to the owner's extra questions,
    if there are none. `text_in_view` is as in `hsfiq.answer_rules.Answer`.
    """

    values: Mapping[str, Any]
    irrelevant: bool | None = False
    reason: str | None = None
    times: Times = field(default_factory=Times)
    images: ImageStates | None = None
    extra: Mapping[str, Any] | None = None
    text_in_view: bool | None = None


@dataclass(frozen=True, slots=True)
class KindOptions:
    """The keys of `[design]` that decide how many sets a question shows."""

    sets: int
    show_target: bool


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer, and the order in which it was asked for.

    Attributes:
        values: the judgement; of `pair`, `{"preferred": ...}`.
        sets: the places of the item's sets, as they were shown.
        images: the places of the first set's images, as they were shown; None if best first.
    """

    values: Mapping[str, Any]
    sets: Sequence[int]
    images: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Gold:
    """A planted question with an obvious answer.

    Attributes:
        passes: whether an answer is right, by the check's `expected` and the judgement.
        words: what is right, for the study's owner.
    """

    passes: Callable[[str, Mapping[str, Any]], bool]
    words: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A question kind.

    Attributes:
        asks: what an annotator does, in a few words.
        n_sets: how many sets a question shows.
        expected: reads `[practice] expected`, what is right at a practice question, or raises
            `Refused`; the page's `isExpected` compares an answer with it.
        repeats: whether the same question, asked again, got the same answer.
        gold: None if there is no question of this kind with an obvious answer.
        needs_lists: whether they are of systems' ranked lists; otherwise, of the labelled target.
        options: the keys of study.toml that not every kind has, and this one has.
        read: the valid judgement in what a page sent, or `Refused`.
        summary: a judgement in a few words, for the study's owner.
        n_live: how many live retrievers give lists, turn by turn; 0 if none does.

    Answers of `pair` have columns of their own, so it has neither `read` nor `summary`.
    """

    name: KindName
    asks: str
    n_sets: Callable[[KindOptions], int]
    options: frozenset[str]
    expected: Callable[[str, Rules], dict[str, Any]]
    repeats: Callable[[ShownAnswer, ShownAnswer, Rules], bool]
    gold: Gold | None = None
    read: Callable[[Mapping[str, Any], Rules], dict[str, Any]] | None = None
    summary: Callable[[Mapping[str, Any]], str] | None = None
    needs_lists: bool = True
    n_live: int = 0

    @property
    def is_live(self) -> bool:
        return self.n_live > 0


def require_keys(given: Mapping[str, Any], *names: str) -> None:
    """Raise `Refused` unless the judgement has these keys and no others."""
    for name in names:
        if name not in given:
            raise Refused(f"judgement: {name} is missing")
    for name in given:
        if name not in names:
            raise Refused(f"judgement: {name[:40]} is not a part of it")


def require_whole_number(name: str, value: object, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        shown = str(value)[:40]
        raise Refused(f"{name} is {shown}, not a whole number from {lowest} to {highest}")
    return value


def whole_numbers(text: str, highest: int) -> list[int]:
    """Different numbers from 1 to the highest, separated by blanks, or `Refused`."""
    words = text.split()
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 5]
    is_sound = (
        words and len(set(numbers)) == len(words) and set(numbers) <= set(range(1, highest + 1))
    )
    if not is_sound:
        raise Refused(f"{text[:40]!r} is not one or more different numbers from 1 to {highest}")
    return numbers
