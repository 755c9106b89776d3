"""An answer and its rules: scores, length of a reason, contradiction, states of the images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args, overload

from hsfiq.errors import InvalidRecord

LOWEST_SCORE, HIGHEST_SCORE = 1, 5
"""Of the standard scale; a study may have another number of points."""
FEWEST_POINTS, MOST_POINTS = 3, 7
"""Of the scale on which sets are scored."""
SHORTEST_REASON = 3
"""The least number of characters of a reason, where the study asks for a reason."""
LONGEST_REASON = 10_000
CONFIRMED_DIFFERENCE = 3
"""If enabled, a preference for a set with a score lower by this many points must be confirmed."""
WHITE_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""The characters ignored at both ends of a reason: the same as `trim` in a browser.

`str.strip` without an argument removes a different set.
"""

WATCHED_ERROR = 0.05
"""The error probability of decisions between two systems over all their studies."""
SPENT = 0.8
"""The share of the remaining error probability that each of these studies spends."""


def error_of_study(n_earlier: int) -> float:
    """The error of a study whose systems `n_earlier` studies have compared before.

    Repeating a study until it decides accumulates error; the total over any number of studies is at
    most `WATCHED_ERROR`.
    """
    return WATCHED_ERROR * SPENT * (1 - SPENT) ** n_earlier


ImageState = Literal["missing", "unloaded", "loaded", "shown", "enlarged"]
"""The state of an image when the answer was given; the last three each include the one before.

- missing: its file is absent or cannot be decoded, so the page showed a placeholder
- unloaded: the browser has not loaded it
- loaded: the browser has loaded and decoded it, but its middle was never visible
- shown: its middle was visible, in the viewport and covered by nothing
- enlarged: it was shown in the viewer of enlarged images
"""

IMAGE_STATES: tuple[ImageState, ...] = get_args(ImageState)
PAINTED: tuple[ImageState, ...] = ("shown", "enlarged")


@dataclass(frozen=True, slots=True)
class ImageStates:
    """The states of a question's images; those of its sets in the order shown.

    `reference` is None if the query has no reference.
    """

    reference: ImageState | None
    sets: tuple[tuple[ImageState, ...], ...]

    def __iter__(self) -> Iterator[ImageState]:
        yield from self._references
        for states in self.sets:
            yield from states

    def __len__(self) -> int:
        return len(self._references) + sum(map(len, self.sets))

    @property
    def _references(self) -> tuple[ImageState, ...]:
        return () if self.reference is None else (self.reference,)

    @property
    def n_painted(self) -> int:
        return sum(state in PAINTED for state in self)

    @property
    def n_enlarged(self) -> int:
        return sum(state == "enlarged" for state in self)

    @property
    def are_painted(self) -> bool:
        """Whether every image was painted: shown or enlarged."""
        return all(state in PAINTED for state in self)

    def including(self, earlier: ImageStates) -> ImageStates:
        """For each image the later of its two states."""
        sets = (
            tuple(map(later_state, states, before))
            for states, before in zip(self.sets, earlier.sets, strict=True)
        )
        references = map(later_state, self._references, earlier._references)
        return ImageStates(next(references, None), tuple(sets))

    @property
    def letters(self) -> str:
        """The first letter of each state, a group for each set: `s sssss ssesl`.

        Without a reference they begin with a blank.
        """
        return " ".join(
            "".join(state[0] for state in states) for states in (self._references, *self.sets)
        )

    @staticmethod
    @lru_cache(maxsize=1024)  # most answers have the same states
    def from_letters(letters: str) -> ImageStates:
        by_letter = {state[0]: state for state in IMAGE_STATES}
        reference, *sets = (
            tuple(by_letter[letter] for letter in group) for group in letters.split(" ")
        )
        return ImageStates(next(iter(reference), None), tuple(sets))


def are_painted(letters: str | None) -> bool | None:
    """Whether every image was painted, by the letters that the database stores."""
    return None if letters is None else ImageStates.from_letters(letters).are_painted


def later_state(state: ImageState, other_state: ImageState) -> ImageState:
    return max(state, other_state, key=IMAGE_STATES.index)


@dataclass(frozen=True, slots=True)
class Times:
    """When a question was served, first touched and submitted (aware), and the seconds it took.

    All are None for answers that were published without them.
    """

    served_at: datetime | None = None
    first_interaction_at: datetime | None = None
    submitted_at: datetime | None = None
    active_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One participant's answer to one question.

    Attributes:
        values: the judgement, as the question's kind reads it (`hsfiq.kinds`).
        irrelevant: the flag; None if flags were not recorded, or the page has none.
        images: the states of the images; None if they are unknown.
        extra: the answers to the owner's extra questions; None if there are none.
        text_in_view: whether the whole text was in view before the answer; None if there is no
            text, or it is unknown.
    """

    values: Mapping[str, Any]
    irrelevant: bool | None = False
    reason: str | None = None
    times: Times = field(default_factory=Times)
    images: ImageStates | None = None
    extra: Mapping[str, Any] | None = None
    text_in_view: bool | None = None


def pair_values(
    score_1: int, score_2: int, preferred: int, confirmed: bool | None = None
) -> dict[str, Any]:
    """The judgement of a pair: two Likert scores, and the preferred set, 1 or 2, or 0 for a tie.

    The scores are not higher than any scale allows; a study's own limit is checked when they are
    stored. `confirmed` is True if the participant was asked whether a preference for the set scored
    much lower is meant, and kept it; None if not asked, or unknown.

    Raises:
        InvalidRecord: a score or the preference is not a number of any scale.
    """
    require_integer("score 1", score_1, LOWEST_SCORE, MOST_POINTS)
    require_integer("score 2", score_2, LOWEST_SCORE, MOST_POINTS)
    require_integer("the preferred set", preferred, 0, 2)
    return {
        "score_1": score_1, "score_2": score_2, "preferred": preferred, "confirmed": confirmed,
    }  # fmt: skip


Values = TypeVar("Values")


@overload
def contradicts(preferred: int, score_1: int, score_2: int, *, by: int = 1) -> bool: ...
@overload
def contradicts(preferred: Values, score_1: Values, score_2: Values, *, by: int = 1) -> Values: ...
def contradicts(preferred: Any, score_1: Any, score_2: Any, *, by: int = 1) -> Any:
    """Whether the score of the preferred set (0 for a tie) is lower by at least this many points.

    Works elementwise on columns (pandas, NumPy), too.

    >>> contradicts(1, 2, 4), contradicts(2, 2, 4), contradicts(1, 3, 3), contradicts(0, 1, 5)
    (True, False, False, False)
    >>> contradicts(1, 2, 4, by=3), contradicts(2, 5, 2, by=3)
    (False, True)
    """
    lead = score_1 - score_2
    return ((preferred == 1) & (lead <= -by)) | ((preferred == 2) & (lead >= by))


def require_integer(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidRecord(f"{name} is {value!r}, not an integer from {lowest} to {highest}")
