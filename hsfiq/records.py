"""The records that packages exchange: readers return them, `collect` and `importing` store them.

Each record validates itself, and the rules of an answer (ranges, lengths, contradiction) are here.
Ids are outside ids (see `hsfiq.ids`), never database keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsfiq.errors import HsfiqError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

LOWEST_SCORE, HIGHEST_SCORE = 1, 5
SHORTEST_REASON = 3
"""Characters of a reason where the study asks for one."""
LONGEST_REASON = 10_000


class InvalidRecord(HsfiqError, ValueError):
    """A record with an invalid value."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A reference and a target image with the captions that describe the difference.

    `target` is None if the dataset withholds it (test splits).
    """

    external_id: str
    reference: str
    target: str | None
    captions: tuple[str, ...]
    category: str = ""
    split: str | None = None


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one system returned for one query, best first; `scores` if the run has them."""

    query_id: str
    system: str
    images: tuple[str, ...]
    scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.images:
            raise InvalidRecord(f"the list of query {self.query_id} is empty")
        if len(set(self.images)) < len(self.images):
            twice = next(name for name in self.images if self.images.count(name) > 1)
            raise InvalidRecord(f"the list of query {self.query_id} holds image {twice} twice")
        if self.scores is not None and len(self.scores) != len(self.images):
            raise InvalidRecord(
                f"the list of query {self.query_id} has {len(self.images)} images "
                f"but {len(self.scores)} scores"
            )


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
    """One participant's answer to one question: two Likert scores and a preferred set.

    `preferred` is 1 or 2, or 0 for a tie if the study allows one.
    """

    score_1: int
    score_2: int
    preferred: int
    irrelevant: bool = False
    reason: str | None = None
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        require_integer("score 1", self.score_1, LOWEST_SCORE, HIGHEST_SCORE)
        require_integer("score 2", self.score_2, LOWEST_SCORE, HIGHEST_SCORE)
        require_integer("the preferred set", self.preferred, 0, 2)

    @property
    def contradicts(self) -> bool:
        return contradicts(self.preferred, self.score_1, self.score_2)


def contradicts(preferred: int, score_1: int, score_2: int) -> bool:
    """Whether the preferred set (0 for a tie) has the strictly lower score.

    >>> contradicts(1, 2, 4), contradicts(2, 2, 4), contradicts(1, 3, 3), contradicts(0, 1, 5)
    (True, False, False, False)
    """
    return (preferred == 1 and score_1 < score_2) or (preferred == 2 and score_2 < score_1)


def is_storable_text(text: str) -> bool:
    """Whether databases can store a text: JSON allows NUL and lone surrogates, databases do not."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def require_integer(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidRecord(f"{name} is {value!r}, not an integer from {lowest} to {highest}")


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One question of a published study with its answer: the two sets as shown, side by side."""

    reference: str
    target: str
    text: str
    sets: tuple[tuple[str, ...], tuple[str, ...]]
    answer: Answer


@dataclass(frozen=True, slots=True)
class PublishedForm:
    participant: str
    name: str
    category: str
    questions: Sequence[JudgedPair]
