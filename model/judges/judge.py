"""What a judge is: it is asked about a query and images, and answers with a number or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from hsfiq.errors import HsfiqError

Asks = Literal["images", "sets", "pairs"]
"""What one question is about: a single image, a retrieved set, or two sets of one query."""


class JudgeFailed(HsfiqError):
    """The judge cannot be asked now; what it has answered is stored."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Question:
    """A query and what is judged.

    Attributes:
        reference: the reference image's file; None if the judge does not look at it.
        sets: one set of one image, one set, or two sets in the order in which they are shown.
        attempt: 1, or more if earlier answers could not be read.
    """

    reference: Path | None
    text: str
    sets: tuple[tuple[Path, ...], ...]
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge answered.

    Attributes:
        value: the number, higher is better; of a pair the preference for the set that was shown
            first, from 0 to 1, where 0.5 is a tie. None if there is none.
        reason: why there is no value.
        raw: what the model said, as JSON.
        usage: what the answer cost, such as `prompt_tokens`.
        is_final: whether asking again in this run would not help.
        is_kept: whether it is stored; else the question is asked again by the next run.
    """

    value: float | None
    reason: str | None = None
    raw: Any = None
    usage: Mapping[str, int] = field(default_factory=dict)
    is_final: bool = True
    is_kept: bool = True


class Judge(ABC):
    """A judge of retrieved sets.

    Attributes:
        asks: what it is asked about.
        reads_reference: whether the reference image is shown; else only the text is the query.
        batch: the most questions that `answer` receives.
        parallel: how many threads may call `answer` at the same time.
    """

    asks: Asks = "images"
    reads_reference: bool = True
    batch: int = 1
    parallel: int = 1
    name: str
    method: ClassVar[str] = "as the judge says"
    """How an answer is computed, with its source."""

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Everything that the answers depend on besides the question, as JSON.

        A stored answer counts only for a judge of the same identity.
        """

    @abstractmethod
    def answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """One answer for each question, in their order.

        Raises:
            JudgeFailed: the judge cannot be asked now.
        """

    def close(self) -> None:  # noqa: B027 -- most judges hold nothing open
        """Let go of what the judge holds open."""
