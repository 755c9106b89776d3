"""The nouns that travel between rooms: what readers yield, the store takes, the page answers.

Each record checks itself when it is made, so that nothing invalid gets further than its maker.
Ids here are the outside ids of design section 4.8, never database keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hsfiq.errors import HsfiqError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

LOWEST_SCORE, HIGHEST_SCORE = 1, 5


class InvalidRecord(HsfiqError, ValueError):
    """A record with a value that its noun cannot have."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """A reference and a target image with the captions that lead from one to the other.

    `target` is None where the dataset withholds it (test splits).
    """

    external_id: str
    reference: str
    target: str | None
    captions: tuple[str, ...]
    category: str = ""
    split: str | None = None


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one system returned for one query, best first; `scores` where the run kept them."""

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
    """When a question was served, first touched and submitted (aware), and the seconds spent on it.

    All are None for answers that were published without them.
    """

    served_at: datetime | None = None
    first_interaction_at: datetime | None = None
    submitted_at: datetime | None = None
    active_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one participant says of one question: two Likert scores and a preferred set.

    `preferred` is 1 or 2, or 0 for a tie where the study allows one.

    Raises:
        InvalidRecord: a score outside 1-5 or a preferred set outside 0-2.
    """

    score_1: int
    score_2: int
    preferred: int
    irrelevant: bool = False
    reason: str | None = None
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        require_whole("score 1", self.score_1, LOWEST_SCORE, HIGHEST_SCORE)
        require_whole("score 2", self.score_2, LOWEST_SCORE, HIGHEST_SCORE)
        require_whole("the preferred set", self.preferred, 0, 2)


def require_whole(name: str, value: object, lowest: int, highest: int) -> None:
    """Raise `InvalidRecord` unless `value` is a whole number (no bool) in the range."""
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidRecord(f"{name} is {value!r}, not a whole number from {lowest} to {highest}")


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
    """One participant's batch of questions in a published study."""

    participant: str
    name: str
    category: str
    questions: Sequence[JudgedPair]
