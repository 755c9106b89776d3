"""An answer and its rules: the range of scores, the length of a reason, contradiction."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from hsfiq.errors import InvalidRecord

LOWEST_SCORE, HIGHEST_SCORE = 1, 5
SHORTEST_REASON = 3
"""Characters of a reason where the study asks for one."""
LONGEST_REASON = 10_000
WHITE_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What does not count at either end of a reason: what `trim` removes in a browser.

`str.strip` without an argument removes a different set.
"""


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


def require_integer(name: str, value: object, lowest: int, highest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise InvalidRecord(f"{name} is {value!r}, not an integer from {lowest} to {highest}")
